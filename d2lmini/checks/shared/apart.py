"""Checkers leave no trace: what they run, they run apart from what the reader has."""

import os
import random
from contextlib import contextmanager

import torch

import simgpu as sim


@contextmanager
def apart():
    """Have simulated machines, random numbers and an environment of its own in the block.

    Behind it the reader's tensors and devices work as before, random numbers go on where they
    were, and ``os.environ`` says the same, whatever the solution has done.
    """
    environment, drawn = dict(os.environ), random.getstate()
    try:
        with sim.machine(1), torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(drawn)
        if os.environ != environment:
            os.environ.clear()
            os.environ.update(environment)
