"""The sweeps that chose the constants of collectives: each machine left out."""

import math
import statistics

import pytest

from benchmarks.published import sweeps
from simgpu.network import measured


@pytest.fixture(scope="module")
def chosen():
    return sweeps.chosen_by(sweeps.rows())


def test_every_row_has_a_source_and_a_time():
    found = sweeps.rows()
    assert len(found) == 397
    assert all(row["source"] and seconds > 0 for row, _, seconds, *_ in found)
    assert len({row["system"] for row, *_ in found}) == 9


def test_the_constants_are_those_that_the_rows_choose(chosen):
    assert sweeps.best(chosen) == (measured.WIRE, measured.FILL)


@pytest.mark.slow
def test_a_machine_that_chose_nothing_is_predicted_as_well(chosen):
    """On one node within 10 % in the median, over several within 20 %."""
    for system, (constants, median) in sweeps.left_out(chosen).items():
        assert median < (0.1 if system.startswith("8 x") else 0.205), (system, constants)


def test_without_what_is_measured_beyond_nccls_model_errors_are_far_larger(chosen, monkeypatch):
    def median():
        return statistics.median(abs(math.exp(error) - 1) for error in sweeps.errors(chosen))

    now = median()
    for name, value in (("WIRE", 1.0), ("FILL", 0.0)):
        monkeypatch.setattr(measured, name, value)
    plain = median()
    monkeypatch.undo()
    sweeps.forget()
    assert now < 0.08
    assert plain > 1.7 * now


def test_a_machine_does_not_choose_the_constants_that_judge_it():
    """The slow machine would choose slow wires, the other one fast wires."""
    row = {"collective": "all_reduce"}
    found = [({**row, "system": name}, 2**30) for name in ("slow", "fast")]
    tried = {(0.92, 1): [0.0, 0.5], (1.0, 1): [0.5, 0.1]}
    assert sweeps.best(found, tried) == (0.92, 1), "0.25 on average, against 0.3"
    assert sweeps.best(found, tried, without="slow") == (1.0, 1)
    assert sweeps.best(found, tried, without="fast") == (0.92, 1)


def test_what_is_judged(chosen):
    found = sweeps.judged()
    assert {row["system"] for row, *_ in found} == {one[0]["system"] for one in chosen}
    assert all(row["collective"] != "send" for row, *_ in found)
    short = [row["source"] for row, size, _ in found if size < sweeps.HOST]
    assert short, "short messages are judged"
    fitted = [row for row, size, _ in found if row["system"] == sweeps.START_FROM and size < 2**21]
    assert {row["collective"] for row in fitted} == {"all_reduce"}
    assert not any(source.endswith(("-g 8", "-g 8 (inferred)")) for source in short)
    assert measured.WIRE == 0.96, "constants are put back"
