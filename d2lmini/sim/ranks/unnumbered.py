"""Devices without a number: ``x.to("sim")`` goes to the device of the rank.

C++ completes the name by asking for the current device, and an answer cannot be given from Python:
it takes number 0. So the number is put in before C++ sees the name.
"""

import functools

import torch

from d2lmini.sim.clock import current
from d2lmini.sim.naming import is_simulated, torch_device

_FUNCTIONS = ("torch:tensor", "torch:as_tensor", "torch:asarray")
_METHODS = ("torch:Tensor.to",)


def replacements(find) -> dict:
    """Return what shall stand for PyTorch's functions while ranks run, found by name by `find`."""
    return {name: _complete(find(name), name in _METHODS) for name in _FUNCTIONS + _METHODS}


def _complete(function, is_method):
    @functools.wraps(function)
    def completed(*args, **kwargs):
        if is_method and len(args) > 1 and type(args[1]) in (str, torch.device):
            args = (args[0], _with_number(args[1]), *args[2:])
        elif kwargs.get("device") is not None:
            kwargs["device"] = _with_number(kwargs["device"])
        return function(*args, **kwargs)

    return completed


def _with_number(device):
    if type(device) in (str, torch.device) and is_simulated(device):
        named = torch_device(device)
        return current.find_device(None).torch_device if named.index is None else named
    return device
