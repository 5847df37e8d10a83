"""What is one rank's own although PyTorch and Python keep it once a process.

A real rank is a process. Here the baton takes these things along: they are kept when a rank hands
it on, and restored when the rank gets it back.
"""

import random
import sys

import torch

from simgpu.ranks.process import torch_internals
from simgpu.ranks.process.python_state import Environment, Logs, Output
from simgpu.ranks.process.torch_settings import Switches


class HostClock:
    """The host of one rank: its clock, copies to it that are under way, its device in new threads.

    Parameters
    ----------
    machine : Machine
        That the ranks share.
    row : int
        Under which the trace has this host.
    index : int
        The rank's device.
    """

    def __init__(self, machine, row, index):
        self.machine, self.row, self.index = machine, row, index
        self.now, self.pending = machine.host, []

    def keep(self):
        """Take the clock out of the machine."""
        self.now, self.pending = self.machine.host, self.machine.pending

    def restore(self):
        """Put the clock into the machine."""
        self.machine.host, self.machine.pending = self.now, self.pending
        self.machine.host_row, self.machine.default_index = self.row, self.index


class RandomStates:
    """The generators that a process has one of: PyTorch's for the CPU, Python's, NumPy's."""

    def __init__(self):
        self.keep()

    def keep(self):
        """Note the states."""
        self.torch, self.python = torch.get_rng_state(), random.getstate()
        self.numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None

    def restore(self):
        """Set the states."""
        torch.set_rng_state(self.torch)
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)


class MainProgram:
    """The program that a process has one of: the module ``__main__``, and its arguments."""

    def __init__(self):
        self.keep()

    def keep(self):
        """Note them."""
        self.module, self.argv = sys.modules["__main__"], sys.argv

    def restore(self):
        """Set them."""
        sys.modules["__main__"], sys.argv = self.module, self.argv


class TorchGlobals:
    """PyTorch's module globals that programs change, as listed in ``torch_internals.py``."""

    def __init__(self):
        self.values = torch_internals.first_values()

    def keep(self):
        """Note their values."""
        self.values = torch_internals.get_globals()

    def restore(self):
        """Set them."""
        torch_internals.set_globals(self.values)


class OwnState:
    """All that is one rank's own."""

    def __init__(self, *parts):
        self.parts = parts

    def keep(self):
        """Note it, before another rank runs."""
        for part in self.parts:
            part.keep()

    def restore(self):
        """Set it, before this rank goes on."""
        for part in self.parts:
            part.restore()


def of_process(variables=()):
    """Return the parts that a process has whether it is a rank or not.

    Parameters
    ----------
    variables : dict
        Environment variables that are to be others than now.
    """
    return (
        RandomStates(), Environment(variables), MainProgram(), TorchGlobals(), Switches(), Output(),
        Logs(),
    )  # fmt: skip
