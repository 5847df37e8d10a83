"""Creating tensors on a simulated device: ``torch.ones(2, device="sim:0")``, ``torch.tensor``."""

import functools
import math

import torch
from torch.utils._pytree import tree_map_only

from simgpu.backend import unwritten
from simgpu.backend.operations.copies import to_device
from simgpu.backend.operations.draws import run_seeded, set_generator
from simgpu.backend.operations.host_memory_check import explain
from simgpu.backend.operations.known_values import as_number
from simgpu.backend.tensor import META, has_values, wrap
from simgpu.clock import current
from simgpu.kernels.facts import MAX_REMEMBERED, lookup, signature
from simgpu.races import detector as races

CPU = torch.device("cpu")

# Operations that create a tensor on a device without tensor arguments.
FROM_NUMBERS = (
    "_efficientzerotensor", "arange", "arange.start", "arange.start_step", "eye", "eye.m", "full",
    "kaiser_window", "kaiser_window.beta", "kaiser_window.periodic", "linspace", "logspace",
    "normal.float_float", "ones", "rand", "rand.generator", "randint", "randint.generator",
    "randint.low", "randint.low_generator", "randn", "randn.generator", "randperm",
    "randperm.generator", "scalar_tensor", "tril_indices", "triu_indices", "zeros",
)  # fmt: skip
_EQUAL = {"zeros": 0, "ones": 1, "full": None}  # the number that all of the result holds
_WITHOUT_SHAPES = {"kaiser_window"}  # PyTorch has no meta kernel


def empty(*args, device=None, **kwargs):
    """``aten::empty`` on a simulated device."""
    return _allocate(torch.ops.aten.empty.memory_format, args, device, kwargs)


def empty_strided(*args, device=None, **kwargs):
    """``aten::empty_strided`` on a simulated device."""
    return _allocate(torch.ops.aten.empty_strided.default, args, device, kwargs)


def _allocate(func, args, torch_device, kwargs):
    device = current.find_device(torch_device)
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    kwargs["pin_memory"] = None
    numel = math.prod(args[0])
    device.memory.check(numel * dtype.itemsize)
    is_staging = torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.Python)
    real = is_staging or has_values(device.machine, dtype, numel)
    try:
        data = func(*args, device=CPU if real else META, **kwargs)
    except RuntimeError as error:
        raise explain(error, lookup(func), device) from None
    if is_staging:
        return _StagingTensor.make(data, device)
    tensor = wrap(data, device)
    if unwritten.active is not None:
        unwritten.active.made("empty", tensor)
    return tensor


def make_factory(name):
    """Return a kernel for a factory: one launch that writes the values of the CPU's factory."""
    packet, _, overload = name.partition(".")
    func = getattr(getattr(torch.ops.aten, packet), overload or "default")
    op = lookup(func)
    shapes: dict = {}  # cache of `_shape`
    inner = torch.ops.aten.zeros.default if packet == "_efficientzerotensor" else func

    def factory(*args, device=None, **kwargs):
        device = current.find_device(device)
        numerics = device.machine.numerics
        kwargs["pin_memory"] = None
        args = list(args)
        if op.generator is not None:
            set_generator(op, device, args, kwargs)
        data = _shape(inner, args, kwargs, CPU if packet in _WITHOUT_SHAPES else META, shapes)
        device.memory.check(data.nbytes)
        if not op.seeded and op.generator is None:
            numerics = has_values(device.machine, data.dtype, data.numel())
        if numerics:
            make = functools.partial(inner, device=CPU, **kwargs)
            try:
                data = run_seeded(make, device, args, {}) if op.seeded else make(*args)
            except RuntimeError as error:
                raise explain(error, op, device) from None
        tensor = wrap(data, device)
        if packet in _EQUAL and not device.machine.numerics:
            tensor._block.equal = as_number(args[1] if packet == "full" else _EQUAL[packet])
        device.sink.launch(op.name, num_bytes=data.nbytes, results=tensor)
        if races.active is not None:
            races.active.touch(device, op.name, writes=[tensor])
        return tensor

    return factory


def _shape(make, args, kwargs, device, cache):
    """Return the result of a factory as a meta tensor, which is cached by the arguments."""
    args = [None if isinstance(a, torch.Generator) else a for a in args]
    kwargs = {k: None if k == "generator" else v for k, v in kwargs.items()}
    key = signature(args), tuple(kwargs), signature(kwargs.values()), torch.get_default_dtype()
    shape = cache.get(key)
    if shape is None:
        if len(cache) >= MAX_REMEMBERED:
            cache.clear()
        shape = cache[key] = make(*args, device=device, **kwargs).to(META)
    return shape


def route_meta(name, simulate):
    """Return a ``meta`` kernel that calls `simulate` for the devices of simulated tensors.

    Inside its formulas (above all backward ones) PyTorch creates constants "on the device of x",
    which for a simulated x is ``meta:i``. Plain ``meta`` tensors go to PyTorch's own kernel.
    """
    own = torch.library.get_kernel(f"aten::{name}", "Meta")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)

    def kernel(*args, device=None, **kwargs):
        if device is not None and current.is_cpp_device(device):
            return simulate(*args, device=device, **kwargs)
        return own.call_boxed(keys, *args, device=device, **kwargs)

    return kernel


class _StagingTensor(torch.Tensor):
    """A host tensor into which ``torch.tensor(data, device="sim:0")`` writes.

    PyTorch copies the data with dispatch to subclasses disabled, then calls ``lift_fresh`` with it
    enabled, which replaces the staging tensor by a simulated one.
    """

    @staticmethod
    def make(data, device):
        tensor = torch.Tensor._make_subclass(_StagingTensor, data)
        tensor._data, tensor._device = data, device
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = tree_map_only(
            _StagingTensor, lambda t: to_device(t._data, t._device), (args, kwargs or {})
        )
        if func.overloadpacket is torch.ops.aten.lift_fresh:
            return args[0]
        return func(*args, **kwargs)
