"""Devices without a number: ``torch.tensor(x, device="sim")`` is made on the device of the rank.

For ``x.to("sim")``, and why, see `d2lmini.sim.backend.accelerator`.
"""

import functools

from torch.utils import _device

from d2lmini.sim.backend.accelerator import with_number

_FUNCTIONS = ("torch:tensor", "torch:as_tensor", "torch:asarray")


def replacements(find) -> dict:
    """Return what shall stand for PyTorch's functions while ranks run, found by name by `find`."""
    if hasattr(_device, "_device_constructors"):
        _device._device_constructors()  # a table that is made once, of the functions there are then
    return {name: _complete(find(name)) for name in _FUNCTIONS}


def _complete(function):
    @functools.wraps(function)
    def completed(*args, **kwargs):
        if kwargs.get("device") is not None:
            kwargs["device"] = with_number(kwargs["device"])
        return function(*args, **kwargs)

    return completed
