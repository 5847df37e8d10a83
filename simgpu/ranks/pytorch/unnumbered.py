"""Devices without a number: ``torch.tensor(x, device="sim")`` is made on the device of the rank.

So is ``torch.tensor(x)`` after ``with torch.device("sim")`` or ``torch.set_default_device("sim")``.
For ``x.to("sim")``, and why, see `simgpu.backend.pytorch.accelerator`.
"""

import functools

from torch.utils import _device

from simgpu.backend.pytorch.accelerator import complete, with_number

_FUNCTIONS = ("torch:tensor", "torch:as_tensor", "torch:asarray")
_DEFAULT_DEVICE = "torch.utils._device:DeviceContext.__init__"


def replacements(find) -> dict:
    """Return what shall stand for PyTorch's functions while ranks run, found by name by `find`."""
    if hasattr(_device, "_device_constructors"):
        _device._device_constructors()  # a table that is made once, of the functions there are then
    new = {name: complete(find(name)) for name in _FUNCTIONS}
    return {**new, _DEFAULT_DEVICE: _complete_default(find(_DEFAULT_DEVICE))}


def _complete_default(init):
    @functools.wraps(init)
    def completed(self, device):
        init(self, with_number(device))

    return completed
