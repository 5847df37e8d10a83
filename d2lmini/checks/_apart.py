"""Checkers leave no trace: what they run, they run apart from what the reader has."""

import functools
import os
import random

import torch

from d2lmini import sim
from d2lmini.sim.clock.current import state


def apart(checker):
    """Let a checker have simulated machines, random numbers and an environment of its own.

    Behind it the reader's tensors and devices work as before, random numbers go on where they
    were, and ``os.environ`` says the same, whatever the solution has done.
    """

    @functools.wraps(checker)
    def check(*args, **kwargs):
        environment, seed = dict(os.environ), state.seed
        drawn = random.getstate()
        try:
            with sim.machine(1), torch.random.fork_rng(devices=[]):
                return checker(*args, **kwargs)
        finally:
            random.setstate(drawn)
            state.seed = seed
            if os.environ != environment:
                os.environ.clear()
                os.environ.update(environment)

    return check
