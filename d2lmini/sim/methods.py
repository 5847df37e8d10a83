"""The methods of `SimTensor` that PyTorch's C++ would answer wrongly: it takes it for meta."""

import copy

import torch

from d2lmini.sim import access
from d2lmini.sim.copies import transfer
from d2lmini.sim.memory import SimStorage
from d2lmini.sim.tensor import FUNCTIONS, SimTensor, _DisableFunction, mixed_devices, wrap

CPU = torch.device("cpu")


class ToCopy(torch.autograd.Function):
    """Move a simulated tensor to another device; its gradient is moved back."""

    @staticmethod
    def forward(ctx, tensor, target, dtype, non_blocking, memory_format):
        ctx.back = tensor.device, tensor.dtype
        return transfer(tensor, target, dtype, non_blocking, memory_format)

    @staticmethod
    def backward(ctx, grad):
        device, dtype = ctx.back
        return grad.to(device, dtype), None, None, None, None


def move(tensor, target, dtype=None, non_blocking=False, memory_format=None):
    """Copy `tensor` to another device, under autograd."""
    arguments = tensor, target, dtype, non_blocking, memory_format
    if tensor.requires_grad and torch.is_grad_enabled():
        return ToCopy.apply(*arguments)
    return transfer(*arguments)


def _to(self, *args, **kwargs):
    forced = kwargs.pop("copy", False)
    if args and isinstance(args[0], torch.Tensor) or "other" in kwargs:
        other = kwargs.pop("other") if "other" in kwargs else args[0]
        rest = args[1:] if args else ()
        device, dtype = other.device, other.dtype
        non_blocking = rest[0] if rest else kwargs.get("non_blocking", False)
        memory_format = kwargs.get("memory_format")
        if len(rest) > 1:
            forced = rest[1]
    else:
        if len(args) > 1 and type(args[-1]) is bool and type(args[-2]) is bool:
            forced, args = args[-1], args[:-1]
        device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(*args, **kwargs)
    if device is not None and device.type == "sim":
        device = access.find_device(device).torch_device
    if device is None or device == self.device:
        with _DisableFunction():
            return torch.Tensor.to(
                self, dtype or self.dtype, non_blocking, forced,
                memory_format=memory_format or torch.preserve_format,
            )  # fmt: skip
    return move(self, device, dtype, non_blocking, memory_format)


def _cpu(self, memory_format=None):
    return move(self, CPU, memory_format=memory_format)


def _to_function(func, args, kwargs):
    """``tensor.to(other)``: either of the two may be the simulated one."""
    if isinstance(args[0], SimTensor):
        return _to(*args, **kwargs)
    other = kwargs.pop("other") if "other" in kwargs else args[1]
    return args[0].to(other.device, other.dtype, *args[2:], **kwargs)


def _type_as(func, args, kwargs):
    return args[0].to(args[1].device, args[1].dtype)


def _copy_function(func, args, kwargs):
    """``target.copy_(source)``: across devices with a gradient, the gradient must travel back."""
    target, source, *rest = args
    if (
        isinstance(source, SimTensor)
        and source.requires_grad
        and torch.is_grad_enabled()
        and source.device != target.device
    ):
        source = source.to(target.device)
    with _DisableFunction():
        return func(target, source, *rest, **kwargs)


def _set_item(func, args, kwargs):
    """``target[index] = value``, also where the value is a number or lives elsewhere."""
    target, index, value = args
    index = _index(index)
    if isinstance(target, SimTensor) and not isinstance(value, torch.Tensor):
        if _is_basic(index):
            target[index].fill_(value)
            return
        value = torch.tensor(value, dtype=target.dtype)
    if isinstance(value, SimTensor) and value.device != target.device:
        value = value.to(target.device)
    with _DisableFunction():
        func(target, index, value)


def _get_item(func, args, kwargs):
    target, index = args
    if type(index) not in (int, slice, SimTensor):
        index = _index(index)
    with _DisableFunction():
        return func(target, index)


def _index(index):
    """Replace lists and arrays in an index by host tensors, as CUDA would copy them."""
    if isinstance(index, tuple):
        return tuple(
            i if isinstance(i, int | slice | torch.Tensor) or i is None else _index_item(i)
            for i in index
        )
    return _index_item(index)


def _index_item(item):
    if isinstance(item, list | range) or hasattr(item, "__array__"):
        return item if isinstance(item, torch.Tensor) else torch.as_tensor(item)
    return item


def _is_basic(index):
    items = index if isinstance(index, tuple) else (index,)
    return all(
        i is None or i is Ellipsis or (isinstance(i, int | slice) and not isinstance(i, bool))
        for i in items
    )


def _no_numpy(self, *_, **__):
    raise TypeError(
        f"can't convert {self.device} device type tensor to numpy. "
        "Use Tensor.cpu() to copy the tensor to host memory first."
    )


def _data_ptr(self):
    """Return an invented address; equal for two tensors exactly if they start at one place."""
    return self._block.address + self.storage_offset() * self.element_size()


def _get_data(self):
    with _DisableFunction():
        return torch.Tensor.data.__get__(self)


def _set_data(self, other):
    if not isinstance(other, SimTensor):
        raise RuntimeError(
            f"cannot put a tensor on {other.device} into one on {self.device}; use .to()"
        )
    with _DisableFunction():
        torch.Tensor.data.__set__(self, other)
    self._data, self._device, self._block = other._data, other._device, other._block


def _get_grad(self):
    with _DisableFunction():
        return torch.Tensor.grad.__get__(self)


def _set_grad(self, grad):
    if grad is not None and grad.device != self.device:
        raise RuntimeError(
            f"attempting to assign a gradient with device '{grad.device}' to a tensor with device "
            f"'{self.device}'. Please ensure that the gradient and the tensor are on the same "
            "device"
        )
    with _DisableFunction():
        torch.Tensor.grad.__set__(self, grad)


def _delete_grad(self):
    _set_grad(self, None)


def _deepcopy(self, memo):
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment; use .detach() first"
        )
    if id(self) in memo:
        return memo[id(self)]
    with torch.no_grad():
        result = self.detach().clone()
    result.requires_grad_(self.requires_grad)
    if getattr(self, "_is_param", False):
        result._is_param = True
    if self.grad is not None:
        result.grad = copy.deepcopy(self.grad, memo)
    memo[id(self)] = result
    return result


def _repr(self, *, tensor_contents=None):
    """Return what PyTorch prints for a CUDA tensor; printing copies to the host and waits."""
    prefix = "Parameter containing:\n" if getattr(self, "_is_param", False) else ""
    if self._device.machine is not access._state["machine"]:
        return f"{prefix}tensor(..., device='{self.device}', of a machine that was replaced)"
    if self._device.machine.numerics:
        text = repr(self.detach().cpu())[:-1]
    else:
        text = f"tensor(..., size={tuple(self.shape)}, dtype={self.dtype}"
    start = max(text.rfind(end) for end in ("]", "..."))
    cut = min((p for p in (text.find(s, start) for s in (", size=", ", dtype=")) if p > 0),
              default=len(text))  # fmt: skip
    text = f"{text[:cut]}, device='{self.device}'{text[cut:]}"
    if self.grad_fn is not None:
        text += f", grad_fn=<{self.grad_fn.name().split('::')[-1]}>"
    elif self.requires_grad:
        text += ", requires_grad=True"
    return f"{prefix}{text})"


def _format(self, spec):
    return self.item().__format__(spec) if self.dim() == 0 else object.__format__(self, spec)


def _new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    return torch.tensor(
        data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad
    )


def _refuse_pin(self, *_, **__):
    raise RuntimeError(f"cannot pin '{self.type()}': only dense CPU tensors can be pinned")


def _share(self):
    return self  # as for CUDA tensors: nothing to do


def _type(self, dtype=None, non_blocking=False, **kwargs):
    if dtype is None:
        with _DisableFunction():
            name = torch.Tensor.type(self._data.new_empty(0, device="cpu"))
        return name.replace("torch.", "torch.sim.")
    if isinstance(dtype, torch.dtype):
        return self.to(dtype, non_blocking=non_blocking)
    raise NotImplementedError(f"type({dtype!r}) of a tensor on {self.device}; use .to()")


for _name, _value in {
    "to": _to,
    "cpu": _cpu,
    "numpy": _no_numpy,
    "__array__": _no_numpy,
    "tolist": lambda self: self.cpu().tolist(),
    "data_ptr": _data_ptr,
    "untyped_storage": lambda self: SimStorage(self),
    "get_device": lambda self: self._device.index,
    "is_meta": property(lambda self: False),
    "is_sim": property(lambda self: True),
    "data": property(_get_data, _set_data),
    "grad": property(_get_grad, _set_grad, _delete_grad),
    "__deepcopy__": _deepcopy,
    "__repr__": _repr,
    "__str__": _repr,
    "__format__": _format,
    "__setitem__": lambda self, index, value: _set_item(
        torch.Tensor.__setitem__, (self, index, value), {}
    ),
    "__getitem__": lambda self, index: _get_item(torch.Tensor.__getitem__, (self, index), {}),
    "new_tensor": _new_tensor,
    "pin_memory": _refuse_pin,
    "is_pinned": lambda self, device=None: False,
    "is_shared": lambda self: True,
    "share_memory_": _share,
    "type": _type,
    "record_stream": lambda self, stream: None,
    "__hash__": torch.Tensor.__hash__,
}.items():
    setattr(SimTensor, _name, _value)

FUNCTIONS[torch.Tensor.to] = _to_function
FUNCTIONS[torch.Tensor.type_as] = _type_as
FUNCTIONS[torch.Tensor.copy_] = _copy_function
FUNCTIONS[torch.Tensor.__setitem__] = _set_item
FUNCTIONS[torch.Tensor.__getitem__] = _get_item

__all__ = ["ToCopy", "mixed_devices", "move", "wrap"]
