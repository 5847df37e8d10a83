"""Compiled regions have the kernels that Inductor makes: as many, of as many bytes.

Inductor's are those of ``records/inductor/kernels.json``. It does not judge products, convolutions
and attention, nor the kernels that add up the parts of a split sum (`Fused.second`). Gathers count
as what they gather on both sides.
"""

from functools import cache

import pytest
from support.inductor import comparison, record
from support.inductor.oracle import FORWARD

RECORD = record.read()
CASES = [(name, graph.direction) for name, graphs in RECORD.items() for graph in graphs]
plans = cache(comparison.simulated)


def both(name, direction):
    """Return what counts of Inductor's kernels, and of ours."""
    theirs = comparison.inductors(RECORD[name], direction)
    return theirs, comparison.ours(plans(name), direction)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "direction"), CASES)
def test_kernels_and_bytes_are_inductors(name, direction):
    theirs, ours = both(name, direction)
    assert ours.count == pytest.approx(theirs.count, rel=0.1, abs=1)
    assert ours.bytes == pytest.approx(theirs.bytes, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, direction in CASES if direction == FORWARD])
def test_as_much_is_kept_for_the_backward_pass(name):
    theirs, ours = both(name, FORWARD)
    assert ours.saved == pytest.approx(theirs.saved, rel=0.05)
