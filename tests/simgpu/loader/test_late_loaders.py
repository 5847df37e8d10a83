"""Who is late where the times of data loaders are measured, and scatter."""

import random

import pytest

from simgpu.run.causes.shares import INPUT, WAITING
from simgpu.run.causes.waited import waited_for

RANKS, STEPS = 8, 20
COMPUTE = 5e-3  # seconds of a step


def measured(usual, scatter, slow=(), seed=1):
    """Return shares and batches of ranks that wait for one another in each step.

    Parameters
    ----------
    usual, scatter : float
        The mean seconds of a batch, and their standard deviation, which all ranks share.
    slow : dict of int to float
        The mean seconds of other ranks.
    """
    draw, slow = random.Random(seed), dict(slow)
    batches = {
        rank: [abs(draw.gauss(slow.get(rank, usual), scatter)) for _ in range(STEPS)]
        for rank in range(RANKS)
    }
    steps = [max(each) + COMPUTE for each in zip(*batches.values(), strict=True)]
    shares = {
        rank: {
            INPUT: sum(own) / sum(steps),
            "compute": STEPS * COMPUTE / sum(steps),
            WAITING: 1 - (sum(own) + STEPS * COMPUTE) / sum(steps),
        }
        for rank, own in batches.items()
    }
    return shares, batches


def late(shares, batches):
    return waited_for(shares, dict.fromkeys(shares, 1), 0.1, "step", batches)


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_loader_alone_is_named_and_by_how_much(seed):
    found = late(*measured(12e-3, 2e-3, {3: 41e-3}, seed))
    assert (found.ranks, found.cause, found.each) == ((3,), INPUT, "batch")
    assert found.own_seconds == pytest.approx(41e-3, rel=0.05)
    assert found.others_seconds == pytest.approx(12e-3, rel=0.05)


def test_the_line_says_how_often_batches_come():
    shares, batches = measured(12e-3, 0.0, {3: 41e-3})
    assert str(late(shares, batches)) == (
        "for rank 3, whose data loader takes longer: a batch every 41 ms, others 12 ms"
    )


def test_nobody_is_late_where_batches_scatter():
    """As they do where workers share the cores: some ranks wait less than others by chance."""
    runs = [measured(12e-3, 4e-3, seed=seed) for seed in range(20)]
    assert sum(late(shares, {}) is not None for shares, _ in runs) > 15  # by waits alone
    assert [late(*run) for run in runs] == [None] * 20


def test_a_slow_gpu_is_named_although_loaders_scatter():
    shares, batches = measured(12e-3, 4e-3)
    shares[5] |= {"compute": shares[5]["compute"] + shares[5][WAITING], WAITING: 0.0}
    found = late(shares, batches)
    assert (found.ranks, found.cause, found.each) == ((5,), "compute", "step")
