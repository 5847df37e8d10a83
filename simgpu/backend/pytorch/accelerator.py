"""Simulated GPUs as PyTorch's accelerator, where there is no real one.

`torch.accelerator`, barriers and pinning ask a backend's C++; one in Python takes their places.
"""

import functools

import torch
from torch.jit import _builtins
from torch.overrides import handle_torch_function, has_torch_function_unary
from torch.utils import _device

from simgpu.backend.pinned import is_pinned, pin_memory
from simgpu.backend.pytorch.torch_streams import KINDS
from simgpu.clock import current, queries
from simgpu.naming import is_simulated, torch_device

_registered: list = []  # what C++ only borrows


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    """Says that the device type exists; ``torch.distributed.barrier`` and data loaders ask."""

    def is_available(self):
        return current.device_count() > 0

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


def with_number(device):
    """Return a device; if it is simulated and has no number, the current one.

    C++ completes the name by asking for the current device, and an answer cannot be given from
    Python: it takes number 0. So the number is put in before C++ sees the name.
    """
    if type(device) in (str, torch.device) and is_simulated(device):
        named = torch_device(device)
        return current.find_device(None).torch_device if named.index is None else named
    return device


def _completed(of_torch):
    """Return `torch.Tensor.to` that gives devices a number."""

    @functools.wraps(of_torch)
    def to(self, *args, **kwargs):
        if args:
            args = with_number(args[0]), *args[1:]
        elif kwargs.get("device") is not None:
            kwargs["device"] = with_number(kwargs["device"])
        if has_torch_function_unary(self):  # it looks for the method in tables, as it was
            return handle_torch_function(of_torch, (self,), self, *args, **kwargs)
        return of_torch(self, *args, **kwargs)

    return to


def complete(function):
    """Return a function that makes tensors, for which C++ takes number 0, with numbers put in."""

    @functools.wraps(function)
    def completed(*args, **kwargs):
        if kwargs.get("device") is not None:
            kwargs["device"] = with_number(kwargs["device"])
        return function(*args, **kwargs)

    completed.__module__, completed.__qualname__ = "torch", function.__name__  # to be pickled
    return completed


METHODS = {  # of tensors
    "to": _completed(torch.Tensor.to),
    "pin_memory": lambda self, device=None: pin_memory(self),
    "is_pinned": lambda self, device=None: is_pinned(self),
}


# Functions that make tensors.
_COMPLETED = {name: complete(getattr(torch, name)) for name in ("tensor", "as_tensor", "asarray")}


def replacements() -> dict:
    """Return what answers for `torch.accelerator`, `torch.Stream`, `torch.Event`, and so on."""
    # A table that PyTorch makes once, of the functions there are then: let it be of its own.
    constructors = _device._device_constructors() | set(_COMPLETED.values())
    return {
        **{f"torch._C:{name}": function for name, function in FUNCTIONS.items()},
        **{f"torch:{name}": kind for name, kind in KINDS.items()},
        **{f"torch:{name}": function for name, function in _COMPLETED.items()},
        **{f"torch:Tensor.{name}": method for name, method in METHODS.items()},
        "torch.utils._device:_device_constructors": lambda: constructors,
        "torch.utils._device:DeviceContext.device": property(
            lambda context: with_number(vars(context)["device"]),
            lambda context, device: vars(context).update(device=device),
        ),
    }


def register() -> None:
    """Make simulated GPUs PyTorch's accelerator, once a process: C++ cannot be told otherwise."""
    _registered.extend((_Hooks(), _Guard()))
    torch._C._acc.register_python_privateuseone_hook(_registered[0])
    torch._C._acc.register_python_privateuseone_device_guard(_registered[1])
    for completed in _COMPLETED.values():
        if (in_script := _builtins._find_builtin(completed.__wrapped__)) is not None:
            _builtins._register_builtin(completed, in_script)
