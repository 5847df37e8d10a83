"""Lazy modules: parameters and buffers on a simulated GPU whose shape is not known yet."""

import functools
import inspect

import torch
from torch.nn.parameter import (
    UninitializedBuffer,
    UninitializedParameter,
    UninitializedTensorMixin,
    is_lazy,
)

from simgpu.backend.tensor import SimTensor

_LAZY = "torch.nn.parameter"


class _Uninitialized:
    """Base of uninitialised parameters and buffers on a simulated GPU."""

    cls_to_become = SimTensor
    __str__ = UninitializedTensorMixin.__repr__

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return _host_class(self), (self.requires_grad,)


class _Parameter(_Uninitialized, UninitializedParameter, SimTensor):
    """An `UninitializedParameter` on a simulated GPU."""


class _Buffer(_Uninitialized, UninitializedBuffer, SimTensor):
    """An `UninitializedBuffer` on a simulated GPU."""


def _host_class(tensor):
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return UninitializedParameter if is_parameter else UninitializedBuffer


def _new_on_any_device(kind, simulated, mark):
    """Return a ``__new__`` that creates simulated tensors on simulated devices."""
    new = kind.__new__
    signature = inspect.signature(new)

    @functools.wraps(new)
    def make(cls, *args, **kwargs):
        given = signature.bind(cls, *args, **kwargs)
        given.apply_defaults()
        options = given.arguments
        tensor = torch.empty(0, device=options["device"], dtype=options["dtype"])
        if not isinstance(tensor, SimTensor):
            return new(cls, *args, **kwargs)
        tensor.requires_grad_(options["requires_grad"])
        setattr(tensor, mark, True)
        if "persistent" in options:
            tensor.persistent = options["persistent"]
        tensor.__class__ = simulated
        return tensor

    return staticmethod(make)


def _move(tensor, fn):
    """Apply `fn` of `Module._apply` to an uninitialised tensor; return False if PyTorch can."""
    target = fn(torch.empty(0, device=tensor.device, dtype=tensor.dtype))
    if not (isinstance(target, SimTensor) or isinstance(tensor, SimTensor)):
        return False
    other = _host_class(tensor)(tensor.requires_grad, target.device, target.dtype)
    tensor.__class__, other.__class__ = other.__class__, tensor.__class__
    tensor.__dict__, other.__dict__ = other.__dict__, tensor.__dict__
    torch._C._swap_tensor_impl(tensor, other)
    return True


def _move_uninitialized(apply):
    """Wrap `Module._apply` to move uninitialised tensors to, between and from simulated GPUs."""

    @functools.wraps(apply)
    def move_and_apply(self, fn, recurse=True):
        moved = []
        for tensors in (self._parameters, self._buffers):
            for name, tensor in tensors.items():
                if is_lazy(tensor) and _move(tensor, fn):
                    moved.append((tensors, name, tensor))
                    tensors[name] = None  # PyTorch skips None
        try:
            return apply(self, fn, recurse)
        finally:
            for tensors, name, tensor in moved:
                tensors[name] = tensor

    return move_and_apply


def replacements() -> dict:
    """Return the replacements that create lazy modules on simulated GPUs and move them."""
    return {
        f"{_LAZY}:UninitializedParameter.__new__": _new_on_any_device(
            UninitializedParameter, _Parameter, "_is_param"
        ),
        f"{_LAZY}:UninitializedBuffer.__new__": _new_on_any_device(
            UninitializedBuffer, _Buffer, "_is_buffer"
        ),
        "torch.nn:Module._apply": _move_uninitialized(torch.nn.Module._apply),
    }
