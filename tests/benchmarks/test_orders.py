"""Choices among the ways to do a job, and the errors that ``simgpu plan --search`` prints."""

import math
from dataclasses import replace

import pytest

from benchmarks.published import orders, record
from benchmarks.published.page import blocks
from benchmarks.published.rows import Prediction
from simgpu.search import errors

EXPERTS = "moe folding"  # the table of mixtures of experts
NO_STEPS = "collectives", "korthikanti memory"


def job(times, name="8"):
    """Return predictions of one job: (measured, predicted) for each way to do it."""
    return [Prediction("s", "p", "w", measured, predicted, job=name)
            for measured, predicted in times]  # fmt: skip


def test_choices_by_hand():
    good = job([(1, 5), (2, 6), (4, 7)], "1")
    near = job([(1.04, 1), (1, 2), (3, 3)], "2")
    poor = job([(1, 3), (2, 2), (3, 1)], "3")
    too_few = job([(1, 3), (2, 2)], "4")
    found = orders.choices([*good, *near, *poor, *too_few], "x")
    assert found == {
        "x_jobs": 3, "x_best": 1, "x_near": 2, "x_far": 1, "x_choice": pytest.approx(2),
        "x_mean": pytest.approx(2.04 / 3), "x_random_best": pytest.approx(1),
        "x_random_near": pytest.approx(1 + 1 / 3), "x_random_worst": pytest.approx(4),
        "x_random_mean": pytest.approx((4 / 3 + 2.04 / 3 + 1) / 3),
    }  # fmt: skip
    assert math.isnan(orders.choices(job([(1, 1)]), "x")["x_choice"]), "a single split is none"


def test_orders_by_hand():
    """Predicted 1, 1.04, 1.3: differences of 4, 30 and 25 %; the last two are wrong."""
    found = orders.orders([*job([(2, 1), (3, 1.04), (1, 1.3)], "1"), *job([(1, 9)], "2")])
    assert found[0] == (1, 1)
    assert found[3] == (2, 0)
    assert [n for n, _ in found] == [1, 0, 0, 2, 0]
    assert "no pair" in blocks.order_table([], [])


def test_rows_that_were_fitted_are_left_out():
    one = job([(1, 1)])
    assert orders.not_fitted([*one, replace(one[0], fitted=True)]) == one


def test_rows_without_a_job_are_no_choice():
    assert orders.jobs(job([(1, 1), (2, 2)], "")) == []


def test_when_a_difference_is_clear():
    found = orders.pairs(job([(2, 1), (3, 1.04), (1, 1.3)]))
    assert found == [(pytest.approx(0.04), True), (pytest.approx(0.3), False),
                     (pytest.approx(0.25), False)]  # fmt: skip
    assert orders.clear_difference([(0.07, False)] * 2 + [(0.12, True)] * 20) == 0.1
    assert orders.clear_difference([(0.9, False)]) is None
    assert orders.share_right([(0.1, True), (0.15, False), (0.2, True)], 0.1, 0.2) == 0.5


@pytest.fixture(scope="module")
def steps():
    """Return the predictions of training steps: of mixtures of experts, and of others."""
    tables, _ = record.read()
    found = {True: [], False: []}
    for table in tables:
        if table.family not in NO_STEPS:
            timed = [p for p in table.predictions if p.measured is not None]
            found[table.family == EXPERTS] += orders.not_fitted(timed)
    return found[True], found[False]


def test_the_errors_that_a_search_prints_are_those_of_the_record(steps):
    experts, others = steps
    found = orders.pairs(experts + others)
    assert len(found) > 1000
    assert orders.clear_difference(found) == errors.COMPARED
    near = orders.share_right(found, errors.COMPARED, 2 * errors.COMPARED)
    assert near == pytest.approx(errors.ORDER, abs=0.01)
    for printed, predictions in (errors.TIME, others), (errors.TIME_EXPERTS, experts):
        low, high = orders.time_range(predictions)
        assert printed[0] <= low + 0.005 < printed[0] + 0.05
        assert high <= printed[1] < high + 0.05


def test_the_plan_that_is_predicted_to_be_the_fastest_is_a_good_one(steps):
    """What it really took longer than the fastest published one."""
    found = orders.choices(steps[0] + steps[1], "plan")
    assert found["plan_jobs"] > 50
    assert found["plan_near"] > 0.8 * found["plan_jobs"]
    assert found["plan_mean"] < 0.05
