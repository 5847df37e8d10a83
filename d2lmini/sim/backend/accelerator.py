"""Simulated GPUs as PyTorch's accelerator, where there is no real one.

`torch.accelerator`, barriers and pinning ask a backend's C++; one in Python takes their places.
"""

import torch

from d2lmini.sim.backend.pinned import is_pinned, pin_memory
from d2lmini.sim.clock import current, queries

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


_ACCELERATOR = {
    "getDeviceIndex": current.current_device,
    "setDeviceIndex": current.set_device,
    "exchangeDevice": _exchange,
    "maybeExchangeDevice": _maybe_exchange,
    "getStream": queries.current_stream,
    "setStream": _set_stream,
    "synchronizeDevice": queries.synchronize,
    "isAllocatorInitialized": lambda: True,
    "emptyCache": lambda: None,
    "emptyHostCache": lambda: None,
    "getDeviceStats": _stats,
    "resetPeakStats": queries.reset_peak_memory_stats,
    "resetAccumulatedStats": lambda index: None,
    "getMemoryInfo": _memory_info,
}


def register() -> None:
    """Answer for `torch.accelerator`, ``Tensor.pin_memory`` and ``Tensor.is_pinned``."""
    _registered.extend((_Hooks(), _Guard()))
    torch._C._acc.register_python_privateuseone_hook(_registered[0])
    torch._C._acc.register_python_privateuseone_device_guard(_registered[1])
    for name, function in _ACCELERATOR.items():
        setattr(torch._C, f"_accelerator_{name}", function)
    torch.Tensor.pin_memory = lambda self, device=None: pin_memory(self)
    torch.Tensor.is_pinned = lambda self, device=None: is_pinned(self)
