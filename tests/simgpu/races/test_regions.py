"""Which tensors share bytes: exactly, and as the race detector uses it."""

import itertools

import pytest
import torch
from support.programs.race_programs import configure, races_in

import simgpu as sim
from simgpu.races.regions import contains, overlap, region

hypothesis = pytest.importorskip("hypothesis")
given, settings, st = hypothesis.given, hypothesis.settings, hypothesis.strategies


def test_views_race_where_they_share_bytes():
    device, side = configure()

    def program(mine, yours):
        x = torch.ones(4, 6, device=device)
        side.wait_stream(sim.current_stream(device))
        mine(x).mul_(2)
        with side:
            yours(x).mul_(2)

    def race(mine, yours):
        return races_in(program, mine, yours) is not None

    assert not race(lambda x: x[:2], lambda x: x[2:])
    assert race(lambda x: x[:3], lambda x: x[2:])
    assert not race(lambda x: x[:, :2], lambda x: x[:, 2:])  # one lies in the gaps of the other
    assert race(lambda x: x[:, :3], lambda x: x[:, 2:])
    assert not race(lambda x: x[:, ::2], lambda x: x[:, 1::2])
    assert race(lambda x: x.t()[1:3], lambda x: x.view(-1)[13:14])
    assert not race(lambda x: x.t()[1:3], lambda x: x.view(-1)[12:13])


strided = st.integers(1, 3).flatmap(
    lambda dims: st.tuples(
        st.integers(0, 12),
        st.tuples(*[st.integers(1, 4)] * dims),
        st.tuples(*[st.integers(0, 9)] * dims),
        st.sampled_from([1, 2, 4, 8]),
    )
)


def bytes_of(offset, shape, strides, itemsize):
    """All bytes of a strided tensor, one by one."""
    return {
        (offset + sum(map(int.__mul__, index, strides))) * itemsize + byte
        for index in itertools.product(*map(range, shape))
        for byte in range(itemsize)
    }


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True)
@given(one=strided, other=strided)
def test_overlap_is_exact(one, other):
    a, b = bytes_of(*one), bytes_of(*other)
    assert overlap(region(*one), region(*other)) == bool(a & b)
    if contains(region(*one), region(*other)):
        assert b <= a


def test_a_contiguous_region_is_one_run_of_bytes():
    whole = region(0, (4, 6), (6, 1), 4)
    assert whole == region(0, (24,), (1,), 4) == (0, ((1, 95),))
    assert contains(whole, region(1, (4, 2), (6, 1), 4))
    assert not contains(region(0, (4, 2), (6, 1), 4), whole)
