"""Simulated GPUs as PyTorch's accelerator, where there is no real one.

`torch.accelerator`, barriers and pinning ask a backend's C++; one in Python takes their places.
"""

import functools

import torch

from d2lmini.sim.backend.pinned import is_pinned, pin_memory
from d2lmini.sim.backend.torch_streams import KINDS
from d2lmini.sim.clock import current, queries
from d2lmini.sim.naming import TYPES, device_type

_registered: list = []  # what C++ only borrows


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    """Says that the device type exists; ``torch.distributed.barrier`` and data loaders ask."""

    def is_available(self):
        return True

    def is_built(self):
        return True

    def has_primary_context(self, index):
        return index < current.device_count()


class _Guard(torch._C._acc.DeviceGuard):
    """PyTorch's own stand-in: C++ keeps no current device and no streams of this type."""

    def type_(self):
        return torch._C._autograd.DeviceType.PrivateUse1


def _exchange(index):
    before = current.current_device()
    current.set_device(index)
    return before


def _maybe_exchange(index):
    return _exchange(index) if index >= 0 else current.current_device()


def _set_stream(stream):
    current.set_device(stream.device.index)
    stream._device.set_current_stream(stream)


def _stats(index):
    current, peak = queries.memory_allocated(index), queries.max_memory_allocated(index)
    sizes = {"all": {"current": current, "peak": peak}}
    return {"allocated_bytes": sizes, "reserved_bytes": sizes}  # nothing is kept in reserve


def _memory_info(index):
    memory = current.find_device(index).memory
    return memory.capacity - memory.allocated, memory.capacity


FUNCTIONS = {  # of torch._C, behind `torch.accelerator`
    "_accelerator_getDeviceIndex": current.current_device,
    "_accelerator_setDeviceIndex": current.set_device,
    "_accelerator_exchangeDevice": _exchange,
    "_accelerator_maybeExchangeDevice": _maybe_exchange,
    "_accelerator_getStream": queries.current_stream,
    "_accelerator_setStream": _set_stream,
    "_accelerator_synchronizeDevice": queries.synchronize,
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_emptyCache": lambda: None,
    "_accelerator_emptyHostCache": lambda: None,
    "_accelerator_getDeviceStats": _stats,
    "_accelerator_resetPeakStats": queries.reset_peak_memory_stats,
    "_accelerator_resetAccumulatedStats": lambda index: None,
    "_accelerator_getMemoryInfo": _memory_info,
}


def _to(self, *args, **kwargs):
    """Move a tensor; a device without a number is the current one, which C++ does not know."""
    device = args[0] if args else kwargs.get("device")
    if device is not None and _is_unnumbered(device):
        device = torch.device(device_type(), current.current_device())
        if args:
            args = device, *args[1:]
        else:
            kwargs["device"] = device
    return _TO(self, *args, **kwargs)


def _is_unnumbered(device):
    if type(device) is str:
        return device in TYPES
    return type(device) is torch.device and device.index is None and device.type in TYPES


_TO = torch.Tensor.to
functools.update_wrapper(_to, _TO)

METHODS = {  # of tensors
    "to": _to,
    "pin_memory": lambda self, device=None: pin_memory(self),
    "is_pinned": lambda self, device=None: is_pinned(self),
}


def register() -> None:
    """Answer for `torch.accelerator`, `torch.Stream`, `torch.Event`, and some methods."""
    _registered.extend((_Hooks(), _Guard()))
    torch._C._acc.register_python_privateuseone_hook(_registered[0])
    torch._C._acc.register_python_privateuseone_device_guard(_registered[1])
    for name, function in FUNCTIONS.items():
        setattr(torch._C, name, function)
    for name, kind in KINDS.items():
        setattr(torch, name, kind)
    for name, method in METHODS.items():
        setattr(torch.Tensor, name, method)
