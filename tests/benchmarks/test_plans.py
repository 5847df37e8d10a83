"""The choice of plans, scored on published jobs; the errors that ``simgpu plan`` prints."""

import pytest

from benchmarks.published import plans
from simgpu.search import errors


def row(job, measured, predicted, fitted=False):
    values = ("vtrain", job, f"{measured} s", measured, predicted, fitted)
    return dict(zip(plans.FIELDS, values, strict=True))


def test_a_job_is_won_lost_or_tied():
    rows = [
        row("a", 1.0, 2.0),
        row("a", 2.0, 3.0),
        row("a", 3.0, 4.0),  # won
        row("b", 1.0, 3.0),
        row("b", 1.5, 2.0),  # lost by half
        row("c", 1.0, 3.0),
        row("c", 1.01, 2.0),  # a tie
        row("d", 1.0, 1.0),
        row("", 1.0, 1.0),
    ]  # no choice
    jobs = plans.jobs_of(rows)
    found = plans.score(jobs)
    assert (found["jobs"], found["wins"], found["worst_regret"]) == (3, 2, 0.5)
    assert found["rank_correlation"] == 1
    assert sorted(plans.pairs(jobs)) == [(pytest.approx(1 / 3), True), (0.5, False),
                                         (0.5, True), (1.0, True)]  # fmt: skip
    assert plans.compared([(0.07, False)] * 2 + [(0.12, True)] * 20) == 0.1
    assert plans.compared([(0.3, False)]) is None


def test_the_record_is_read_as_written(tmp_path):
    rows = [row("a", 1.0, 2.0), row("b", 2.0, 3.0, True)]
    plans.write(rows, tmp_path / "published" / "plans.json")
    assert plans.read(tmp_path / "published" / "plans.json") == rows


def test_the_errors_that_the_search_prints_are_those_of_the_record():
    rows = plans.read()
    found = plans.pairs(plans.jobs_of(rows))
    assert len(found) > 2000
    assert plans.compared(found) == errors.COMPARED
    near = plans.order_near(found, errors.COMPARED)
    assert near == pytest.approx(errors.ORDER, abs=0.01)
    experts = [row for row in rows if row["table"] == plans.EXPERTS]
    others = [row for row in rows if row["table"] != plans.EXPERTS]
    known = (errors.TIME, plans.time_range(others)), (errors.TIME_EXPERTS, plans.all_times(experts))
    for printed, (low, high) in known:
        assert printed[0] <= low + 0.005 < printed[0] + 0.05
        assert high <= printed[1] < high + 0.05


def test_the_choice_of_plans_on_published_jobs():
    """What the chosen plan really took longer than the fastest published one."""
    found = plans.score(plans.jobs_of(plans.read()))
    assert found["jobs"] > 100
    assert found["wins"] > 0.8 * found["jobs"]
    assert found["mean_regret"] < 0.05
    assert found["rank_correlation"] > 0.85
