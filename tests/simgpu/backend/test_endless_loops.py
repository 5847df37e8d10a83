"""Loops that wait for a value which a run without values does not have."""

import pytest
import torch

import simgpu as sim
from simgpu.backend.operations import endless


def run(loop):
    """Run a loop on a rank that keeps shapes only."""
    return sim.spawn(lambda rank: loop(torch.randn(64, 64, device=f"sim:{rank}")), numerics=False)


def until_none_is_positive(x):
    while (x > 0).any():
        x = x - 1


def until_all_are_small(x):
    while True:
        if not (x > 1).any().item():
            break
        x = x / 2


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(endless, "MOST_READS", 100)


@pytest.mark.parametrize(("loop", "below"), [(until_none_is_positive, 1), (until_all_are_small, 2)])
def test_a_loop_that_cannot_end_is_an_error_that_names_its_line(loop, below):
    line = loop.__code__.co_firstlineno + below
    with pytest.raises(RuntimeError, match=f"test_endless_loops.py:{line} has read a truth value"):
        run(loop)


def test_a_look_at_each_step_is_none():
    def train(x):
        for _ in range(120):
            if (x > 0).any():
                x = x + 1
            for _ in range(100):
                x.add_(1)

    def many(x):
        for _ in range(90):
            bool((x > 0).any())

    run(many)
    run(train)


def test_a_truncated_normal_ends():
    run(torch.nn.init.trunc_normal_)
