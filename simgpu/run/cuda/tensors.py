"""Methods and functions of tensors: ``.cuda()``, ``.type()``, ``pin_memory=True``."""

import functools
import types

import torch
from torch.jit import _builtins
from torch.overrides import handle_torch_function, has_torch_function_unary

from simgpu.backend.pinned import mark_pinned
from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.naming import CUDA, is_simulated

# Functions with an argument `pin_memory`.
_PINNING = (
    "empty", "empty_like", "empty_strided", "eye", "full", "full_like", "linspace", "arange",
    "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "randperm", "tensor", "zeros", "zeros_like",
)  # fmt: skip
_TYPES = {
    "BFloat16": torch.bfloat16, "Bool": torch.bool, "Byte": torch.uint8, "Char": torch.int8,
    "Double": torch.float64, "Float": torch.float32, "Half": torch.float16, "Int": torch.int32,
    "Long": torch.int64, "Short": torch.int16,
}  # fmt: skip


def numbered(device):
    """Return the device ``cuda:i`` for a number, and anything else as it is."""
    return torch.device(CUDA, device) if type(device) is int else device


def _cuda(own):
    @functools.wraps(own)
    def cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
        if has_torch_function_unary(self):
            return handle_torch_function(
                own, (self,), self, device, non_blocking, memory_format=memory_format
            )
        device = CUDA if device is None else numbered(device)
        return self.to(device, non_blocking=non_blocking, memory_format=memory_format)

    return cuda


def _type(own):
    """Extend `torch.Tensor.type` by the types of `torch.cuda`."""

    @functools.wraps(own)
    def type_(self, dtype=None, non_blocking=False, **kwargs):
        if isinstance(dtype, TensorType):
            return self.to(CUDA, dtype.dtype, non_blocking=non_blocking)
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            kind = getattr(torch.cuda, dtype.removeprefix("torch.cuda."))
            return self.to(CUDA, kind.dtype, non_blocking=non_blocking)
        return own(self, *(() if dtype is None else (dtype, non_blocking)), **kwargs)

    return type_


class TensorType(type):
    """The type of ``torch.cuda.FloatTensor`` and the like."""

    def __new__(cls, name, dtype):
        """Return the type of tensors with a `dtype`."""
        kind = super().__new__(cls, name, (), {"__module__": "torch.cuda"})
        kind.dtype = dtype
        return kind

    def __init__(cls, name, dtype):
        super().__init__(name, (), {})

    def __call__(cls, *args):
        """Return a tensor with these sizes, or with these values."""
        if len(args) == 1 and not isinstance(args[0], int | torch.Size):
            return torch.tensor(args[0], dtype=cls.dtype, device=CUDA)
        return torch.empty(*(args or (0,)), dtype=cls.dtype, device=CUDA)

    def __instancecheck__(cls, instance):
        return isinstance(instance, SimTensor) and instance.dtype is cls.dtype and instance.is_cuda


TYPES = {f"{name}Tensor": TensorType(f"{name}Tensor", dtype) for name, dtype in _TYPES.items()}


def _pinning(function):
    """Make a function that creates tensors pin those of the host."""

    @functools.wraps(function)
    def make(*args, **kwargs):
        if "pin_memory" in kwargs and kwargs.pop("pin_memory"):
            tensor = function(*args, **kwargs)
            if tensor.device.type != "cpu":
                raise RuntimeError("Only dense CPU tensors can be pinned")
            mark_pinned(tensor)
            return tensor
        return function(*args, **kwargs)

    return stand_in(make, function)


def stand_in(new, own):
    """Return `new`, which stands for a function of PyTorch for pickling and TorchScript as well."""
    if not isinstance(own, types.MethodDescriptorType):  # of torch.Tensor
        new.__module__, new.__qualname__ = "torch", own.__name__
    if (in_script := _builtins._find_builtin(own)) is not None:
        _builtins._register_builtin(new, in_script)
    return new


def _new_pinning(own):
    @functools.wraps(own)
    def new(self, *args, pin_memory=False, **kwargs):
        tensor = own(self, *args, **kwargs)
        if pin_memory:
            mark_pinned(tensor)
        return tensor

    return new


def _guard(own):
    """Keep the device ``cuda`` from C++, where it would end the process (`std::terminate`).

    A wrapper around a simulated tensor, made with its ``.device``, is on ``meta:i`` to C++, as the
    simulated tensor itself is.
    """

    def make(*args, **kwargs):
        args = [_for_cpp(arg) if isinstance(arg, torch.device) else arg for arg in args]
        for name in ("device", "device_for_backend_keys"):
            if kwargs.get(name) is not None:
                kwargs[name] = _for_cpp(kwargs[name])
        return own(*args, **kwargs)

    return staticmethod(make)


def _for_cpp(device):
    return current.find_device(device).cpp_device if is_simulated(device) else device


def replacements() -> dict:
    """Return the replacements."""
    tensor = torch.Tensor
    return {
        "torch:Tensor.cuda": _cuda(tensor.cuda),
        "torch:Tensor.type": _type(tensor.type),
        **{f"torch:{name}": _pinning(getattr(torch, name)) for name in _PINNING},
        **{
            f"torch:Tensor.{name}": _new_pinning(getattr(tensor, name))
            for name in ("new_empty", "new_zeros", "new_ones", "new_full")
        },
        "torch:Tensor._make_wrapper_subclass": _guard(tensor._make_wrapper_subclass),
        "torch:Tensor._make_subclass": _guard(tensor._make_subclass),
    }
