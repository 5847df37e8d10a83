"""Simulated GPUs as PyTorch's accelerator, if there is no real one.

`torch.accelerator`, barriers and pinning call a backend's C++ code; Python replaces it here.
"""

import functools

import torch
from torch.jit import _builtins
from torch.overrides import handle_torch_function, has_torch_function_unary
from torch.utils import _device
from torch.utils._pytree import tree_flatten, tree_unflatten

from simgpu.backend.pinned import is_pinned, pin_memory
from simgpu.backend.pytorch.torch_streams import KINDS
from simgpu.backend.tensor import SimTensor
from simgpu.clock import current, queries
from simgpu.device_api import devices, memory, streams
from simgpu.naming import CUDA, is_simulated, spelling, split, torch_device

_registered: list = []  # kept alive here: C++ only borrows them


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    """Reports that the device type exists, to ``torch.distributed.barrier`` and data loaders."""

    def is_available(self):
        return current.device_count() > 0

    def is_built(self):
        return True

    def has_primary_context(self, index):
        return index < current.device_count()


class _Guard(torch._C._acc.DeviceGuard):
    """PyTorch's placeholder guard: C++ has no current device and no streams of this type."""

    def type_(self):
        return torch._C._autograd.DeviceType.PrivateUse1


FUNCTIONS = {  # of torch._C, called by `torch.accelerator`
    "_accelerator_getDeviceIndex": current.current_device,
    "_accelerator_setDeviceIndex": current.set_device,
    "_accelerator_exchangeDevice": devices.exchange,
    "_accelerator_maybeExchangeDevice": devices.exchange,
    "_accelerator_getStream": queries.current_stream,
    "_accelerator_setStream": streams.set_stream,
    "_accelerator_synchronizeDevice": queries.synchronize,
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_emptyCache": lambda: None,
    "_accelerator_emptyHostCache": lambda: None,
    "_accelerator_getDeviceStats": memory.memory_stats_as_nested_dict,
    "_accelerator_resetPeakStats": queries.reset_peak_memory_stats,
    "_accelerator_resetAccumulatedStats": lambda index: None,
    "_accelerator_getMemoryInfo": memory.mem_get_info,
}


def with_number(device):
    """Return a device; for a simulated one without a number, the current device.

    C++ would add the number of the current device, which Python cannot tell it, so it takes 0. The
    number is therefore added before C++ sees the device.
    """
    if type(device) in (str, torch.device) and is_simulated(device):
        kind, index = split(device)
        if index is None or (kind == CUDA and spelling.name is not CUDA):
            return current.find_device(device).torch_device
        return torch_device(device)
    return device


def _complete_to(of_torch):
    """Wrap `torch.Tensor.to` to add numbers to devices (`with_number`)."""

    @functools.wraps(of_torch)
    def to(self, *args, **kwargs):
        if args:
            args = with_number(args[0]), *args[1:]
        elif kwargs.get("device") is not None:
            kwargs["device"] = with_number(kwargs["device"])
        if has_torch_function_unary(self):  # overrides are found by the original method
            return handle_torch_function(of_torch, (self,), self, *args, **kwargs)
        return of_torch(self, *args, **kwargs)

    return to


def _on_host(data):
    """Return nested lists with their simulated tensors copied to the host; None if there are none.

    C++ reads the numbers of tensors in a list by itself, but not those of simulated ones.
    """
    leaves, form = tree_flatten(data)
    if not isinstance(data, list | tuple) or not any(isinstance(x, SimTensor) for x in leaves):
        return None
    return tree_unflatten([x.cpu() if isinstance(x, SimTensor) else x for x in leaves], form)


def complete(function):
    """Wrap a function that creates tensors to add numbers to devices (`with_number`).

    Lists of simulated tensors without dimensions become tensors, too.
    """

    @functools.wraps(function)
    def completed(*args, **kwargs):
        if kwargs.get("device") is not None:
            kwargs["device"] = with_number(kwargs["device"])
        try:
            return function(*args, **kwargs)
        except TypeError:
            on_host = _on_host(args[0]) if args else None
            if on_host is None:
                raise
            return function(on_host, *args[1:], **kwargs)

    completed.__module__, completed.__qualname__ = "torch", function.__name__  # for pickling
    return completed


METHODS = {  # of tensors
    "to": _complete_to(torch.Tensor.to),
    "pin_memory": lambda self, device=None: pin_memory(self),
    "is_pinned": lambda self, device=None: is_pinned(self),
}

# Functions that create tensors.
_COMPLETED = {name: complete(getattr(torch, name)) for name in ("tensor", "as_tensor", "asarray")}


def replacements() -> dict:
    """Return the replacements for `torch.accelerator`, `torch.Stream`, `torch.Event` and so on."""
    # PyTorch caches this set at its first call: make it before any function is replaced.
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
    """Make simulated GPUs PyTorch's accelerator, once per process: C++ cannot undo it."""
    _registered.extend((_Hooks(), _Guard()))
    torch._C._acc.register_python_privateuseone_hook(_registered[0])
    torch._C._acc.register_python_privateuseone_device_guard(_registered[1])
    for completed in _COMPLETED.values():
        if (in_script := _builtins._find_builtin(completed.__wrapped__)) is not None:
            _builtins._register_builtin(completed, in_script)
