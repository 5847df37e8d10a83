"""Make simulated GPUs known to PyTorch: the device's type, module and factories."""

import functools
import importlib
import math
import sys
import types
import warnings

import torch
from torch.utils._pytree import tree_map_only

from d2lmini.sim import accelerator, access, autocast, races
from d2lmini.sim.copies import to_device
from d2lmini.sim.dispatch import run_seeded, set_generator
from d2lmini.sim.naming import claim_slot, device_type, is_accelerator
from d2lmini.sim.ops import lookup
from d2lmini.sim.streams import Event, Stream
from d2lmini.sim.tensor import META, SimTensor, is_ordinary, wrap

CPU = torch.device("cpu")
_libraries = []


# Operations that make a tensor on a device from numbers alone.
_FACTORIES = (
    "_efficientzerotensor", "arange", "arange.start", "arange.start_step", "eye", "eye.m", "full",
    "linspace", "logspace", "normal.float_float", "ones", "rand", "rand.generator", "randint",
    "randint.generator", "randint.low", "randint.low_generator", "randn", "randn.generator",
    "randperm", "randperm.generator", "scalar_tensor", "tril_indices", "triu_indices", "zeros",
)  # fmt: skip


def _empty(*args, device=None, **kwargs):
    return _allocate(torch.ops.aten.empty.memory_format, args, device, kwargs)


def _empty_strided(*args, device=None, **kwargs):
    return _allocate(torch.ops.aten.empty_strided.default, args, device, kwargs)


def _allocate(func, args, torch_device, kwargs):
    device = access.find_device(torch_device)
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    kwargs["pin_memory"] = None
    device.memory.check(math.prod(args[0]) * dtype.itemsize)
    if torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.Python):
        return _Landing.make(func(*args, device=CPU, **kwargs), device)
    return wrap(func(*args, device=CPU if device.machine.numerics else META, **kwargs), device)


def _make_factory(name):
    """Return a kernel for a factory: one launch that writes what the CPU's factory makes."""
    packet, _, overload = name.partition(".")
    func = getattr(getattr(torch.ops.aten, packet), overload or "default")
    op = lookup(func)
    inner = torch.ops.aten.zeros.default if packet == "_efficientzerotensor" else func

    def factory(*args, device=None, **kwargs):
        device = access.find_device(device)
        numerics = device.machine.numerics
        kwargs["pin_memory"] = None
        args = list(args)
        if op.generator is not None:
            set_generator(op, device, args, kwargs)
        make = functools.partial(inner, device=CPU if numerics else META, **kwargs)
        data = run_seeded(make, device, args, {}) if op.seeded and numerics else make(*args)
        tensor = wrap(data, device)
        device.machine.launch(
            device, op.name, device.machine.gpu.seconds(0, data.nbytes), 0, data.nbytes
        )
        if races.active is not None:
            races.active.touch(device, op.name, writes=[tensor])
        return tensor

    return factory


def _route_meta(name, simulate):
    """Let PyTorch's constants for a simulated tensor be simulated tensors.

    Inside its formulas (backward ones above all) PyTorch makes constants "on the device of x", and
    for a simulated x that device is ``meta:i``. Plain ``meta`` tensors go to PyTorch's own kernel.
    """
    own = torch.library.get_kernel(f"aten::{name}", "Meta")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)

    def kernel(*args, device=None, **kwargs):
        if device is not None and access.is_cpp_device(device):
            return simulate(*args, device=device, **kwargs)
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
    module._initialized = True  # checkpointing asks for it before it keeps random states
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


def _group_by_real_device(group):
    """Let PyTorch's grouping of optimiser tensors name simulated devices as users do."""

    @functools.wraps(group)
    def grouped(*args, **kwargs):
        return {
            (device if is_ordinary(device) else access.find_device(device).torch_device, dtype): ts
            for (device, dtype), ts in group(*args, **kwargs).items()
        }

    return grouped


def _refuse_data_parallel():
    """Let `nn.DataParallel` say that it cannot, where it would quietly use one device."""
    own = importlib.import_module("torch.nn.parallel.data_parallel")
    find_type = own._get_available_device_type
    init, forward = own.DataParallel.__init__, own.DataParallel.forward

    def refuse(module):
        if any(isinstance(p, SimTensor) for p in module.parameters()):
            raise NotImplementedError(
                "nn.DataParallel scatters and gathers with code for CUDA only; on simulated GPUs "
                "copy the module to each device and split the batch yourself"
            )

    @functools.wraps(init)
    def checked_init(self, module, *args, **kwargs):
        refuse(module)
        init(self, module, *args, **kwargs)

    @functools.wraps(forward)
    def checked_forward(self, *inputs, **kwargs):
        refuse(self)
        return forward(self, *inputs, **kwargs)

    def real_type():
        kind = find_type()
        return None if kind == device_type() else kind

    own._get_available_device_type = real_type  # modules on the host stay there, as without GPUs
    own.DataParallel.__init__, own.DataParallel.forward = checked_init, checked_forward


def register() -> None:
    """Tell PyTorch about simulated GPUs, once a process.

    `configure` calls this, not the import: a process that only uses real GPUs is not touched.
    Beside a real accelerator nothing that belongs to it changes (`d2lmini.sim.naming`).
    """
    if _libraries:
        return
    module = _make_module()
    torch._register_device_module(claim_slot(), module)
    torch.sim = sys.modules["torch.sim"] = module
    if is_accelerator():
        accelerator.register()
    library = torch.library.Library("aten", "IMPL")
    makers = {"empty.memory_format": _empty, "empty_strided": _empty_strided}
    makers.update((name, _make_factory(name)) for name in _FACTORIES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Meta's kernels are replaced is the intention
        for name, make in makers.items():
            library.impl(name, make, "PrivateUse1")
            library.impl(name, _route_meta(name, make), "Meta", allow_override=True)
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        importlib.import_module(name)._foreach_supported_types.append(SimTensor)
    _refuse_data_parallel()
    torch._C._group_tensors_by_device_and_dtype = _group_by_real_device(
        torch._C._group_tensors_by_device_and_dtype
    )
    _libraries.extend((library, *autocast.register()))
