"""Make ``torch.device("sim:0")`` known to PyTorch: the device's name, module and factories."""

import math
import sys
import types

import torch
from torch.utils._pytree import tree_map_only

from d2lmini.sim import access
from d2lmini.sim.copies import to_device
from d2lmini.sim.streams import Event, Stream
from d2lmini.sim.tensor import META, simulated, wrap

_libraries = []


def _empty(size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return _allocate(
        device, dtype, size,
        lambda where, dtype: torch.empty(
            size, dtype=dtype, device=where, memory_format=memory_format or torch.contiguous_format
        ),
    )  # fmt: skip


def _empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None):
    return _allocate(
        device, dtype, size,
        lambda where, dtype: torch.empty_strided(size, stride, dtype=dtype, device=where),
    )  # fmt: skip


def _allocate(torch_device, dtype, size, make):
    device = access.find_device(torch_device)
    dtype = dtype or torch.get_default_dtype()
    device.memory.check(math.prod(size) * dtype.itemsize)
    if torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.Python):
        return _Landing.make(make("cpu", dtype), device)
    return wrap(make("cpu" if device.machine.numerics else META, dtype), device)


def _route_meta(name, simulate):
    """Let PyTorch's constants for a simulated tensor be simulated tensors.

    Inside its formulas (backward ones above all) PyTorch makes constants "on the device of x", and
    for a simulated x that device is ``meta:i``. Plain ``meta`` tensors go to PyTorch's own kernel.
    """
    own = torch.library.get_kernel(f"aten::{name}", "Meta")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)

    def kernel(*args, device=None, **kwargs):
        if device is not None and device.index is not None and (
            device.index < access.device_count()
        ):  # fmt: skip
            return simulate(*args, device=simulated(device), **kwargs)
        return own.call_boxed(keys, *args, device=device, **kwargs)

    return kernel


class _Landing(torch.Tensor):
    """A host tensor into which ``torch.tensor(data, device="sim:0")`` writes.

    PyTorch copies the data with subclasses switched off, then calls ``lift_fresh`` with them
    switched on. The landing takes the data and becomes the simulated tensor at that moment.
    """

    @staticmethod
    def make(data, device):
        landing = torch.Tensor._make_subclass(_Landing, data)
        landing._data, landing._device = data, device
        return landing

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = tree_map_only(
            _Landing, lambda t: to_device(t._data, t._device), (args, kwargs or {})
        )
        if func.overloadpacket is torch.ops.aten.lift_fresh:
            return args[0]
        return func(*args, **kwargs)


class _DeviceContext:
    """``with torch.sim.device(i):`` as ``torch.cuda.device``."""

    def __init__(self, device):
        self._index = access.find_device(device).index

    def __enter__(self):
        self._outer = access.current_device()
        access.set_device(self._index)

    def __exit__(self, *_):
        access.set_device(self._outer)


def _get_rng_state(device=None):
    return access.find_device(device).generator.get_state()


def _set_rng_state(state, device=None):
    access.find_device(device).generator.set_state(state)


def _properties(device=None):
    spec = access.get_device_spec(device)
    return types.SimpleNamespace(name=f"simulated {spec.name}", total_memory=int(spec.memory))


def _make_module():
    module = types.ModuleType("torch.sim", "Simulated GPUs, under the names of `torch.cuda`.")
    module.is_available = lambda: access.device_count() > 0
    module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module._lazy_init = lambda: None
    module.manual_seed_all = access.seed_all
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.get_rng_state = _get_rng_state
    module.set_rng_state = _set_rng_state
    module.device = _DeviceContext
    module.stream = lambda stream: stream
    module.Stream, module.Event = Stream, Event
    module.get_device_properties = _properties
    for name in (
        "device_count", "current_device", "set_device", "current_stream", "default_stream",
        "synchronize", "memory_allocated", "max_memory_allocated", "reset_peak_memory_stats",
    ):  # fmt: skip
        setattr(module, name, getattr(access, name))
    return module


def register() -> None:
    """Tell PyTorch about the device type; once a process."""
    if _libraries:
        return
    torch.utils.rename_privateuse1_backend("sim")
    module = _make_module()
    torch._register_device_module("sim", module)
    sys.modules["torch.sim"] = module
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", _empty, "PrivateUse1")
    library.impl("empty_strided", _empty_strided, "PrivateUse1")
    for name, simulate in (("empty.memory_format", _empty), ("empty_strided", _empty_strided)):
        library.impl(name, _route_meta(name, simulate), "Meta")
    _libraries.append(library)
