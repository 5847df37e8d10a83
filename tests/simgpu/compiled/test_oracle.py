"""Compiled regions have the kernels that Inductor makes: as many, of as many bytes.

Inductor's are those of ``records/inductor/kernels.json``. It does not judge products, convolutions
and attention, nor the kernels that add up the parts of a split sum (`Fused.second`). Gathers count
as what they gather on both sides.
"""

from functools import cache

import pytest
from support.inductor import comparison, record
from support.inductor.oracle import BACKWARD, FORWARD

RECORD = record.read()
CASES = [(name, graph.direction) for name, graphs in RECORD.items() for graph in graphs]
plans = cache(comparison.simulated)


def both(name, direction):
    """Return what counts of Inductor's kernels, and of ours."""
    theirs = comparison.inductors(RECORD[name], direction)
    return theirs, comparison.ours(plans(name), direction)


# Where ours differ by more than 10 % of the kernels and one, or 5 % of the bytes: by how much.
# Inductor joins the weights' gradients of several norms, and small sums that lead to a larger one;
# it writes an activation twice that two batched products read in two layouts, and computes the sum
# of a pooled layer from its operands.
KERNELS = {("scattered_experts", BACKWARD): 4}
BYTES = {
    ("checkpointed", BACKWARD): 1.12,
    ("resnet", FORWARD): 1.06, ("vit", FORWARD): 0.93,
    ("dense_experts", FORWARD): 0.81, ("scattered_experts", FORWARD): 1.08,
    ("scattered_experts", BACKWARD): 1.07,
}  # fmt: skip
SAVED = {"scattered_experts": 0.84}  # a gathered row, which ours gathers again


@pytest.mark.slow
@pytest.mark.parametrize(("name", "direction"), CASES)
def test_kernels_and_bytes_are_inductors(name, direction):
    theirs, ours = both(name, direction)
    if (name, direction) in KERNELS:
        assert ours.count - theirs.count == KERNELS[name, direction]
    else:
        assert ours.count == pytest.approx(theirs.count, rel=0.1, abs=1)
    known = BYTES.get((name, direction))
    assert ours.bytes / theirs.bytes == pytest.approx(known or 1, rel=0.01 if known else 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, direction in CASES if direction == FORWARD])
def test_as_much_is_kept_for_the_backward_pass(name):
    theirs, ours = both(name, FORWARD)
    known = SAVED.get(name)
    assert ours.saved == pytest.approx((known or 1) * theirs.saved, rel=0.01 if known else 0.05)
