"""Isolate what checkers run from the reader's state."""

import os
import random
from contextlib import contextmanager

import torch

import simgpu as sim


@contextmanager
def apart():
    """Run the block with its own simulated machine, random state and environment.

    Afterwards the reader's tensors and devices work as before, and the random state and
    ``os.environ`` are restored, whatever the solution did.
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
