"""The methods of `SimTensor` that PyTorch's C++ would answer wrongly: it takes it for meta."""

import copy

import torch

from d2lmini.sim import access, races
from d2lmini.sim.memory import SimStorage
from d2lmini.sim.naming import torch_device
from d2lmini.sim.tensor import SimTensor, is_ordinary


def _to(self, *args, **kwargs):
    """``tensor.to(...)``: as PyTorch's, except that C++ does not know the device by this name."""
    if args and isinstance(args[0], torch.device | str | int) and not isinstance(args[0], bool):
        kwargs["device"], args = args[0], args[1:]
    elif args and isinstance(args[0], torch.Tensor):
        kwargs["tensor"], args = args[0], args[1:]
    if (other := kwargs.pop("tensor", None)) is not None:
        kwargs["device"], args = other.device, (other.dtype, *args)
    device = kwargs.pop("device", None)
    if device is not None:
        device = access.find_device(device).torch_device if isinstance(device, int) else (
            torch_device(device)
        )  # fmt: skip
        if not is_ordinary(device):
            device = access.find_device(device).torch_device
        if device == self.device:
            access.check_alive(self._device.machine, f"a tensor on {device}")
            device = None
    if args and args[0] is None:
        args = (self.dtype, *args[1:])
    if device is None:
        if args and isinstance(args[0], torch.dtype):
            return torch.Tensor.to(self, *args, **kwargs)
        return torch.Tensor.to(self, kwargs.pop("dtype", None) or self.dtype, *args, **kwargs)
    return torch.Tensor.to(self, device, *args, **kwargs)


def _set_item(self, index, value):
    """``self[index] = value``; a number becomes a fill, not a copy of a host tensor."""
    index = _index(index)
    if not isinstance(value, torch.Tensor):
        if _is_basic(index):
            self[index].fill_(value)
            return
        value = torch.tensor(value, dtype=self.dtype)
    torch.Tensor.__setitem__(self, index, value)


def _get_item(self, index):
    return torch.Tensor.__getitem__(self, index if type(index) is int else _index(index))


def _index(index):
    """Replace lists and arrays in an index by host tensors, as CUDA would copy them."""
    if isinstance(index, tuple):
        return tuple(map(_index_item, index))
    return _index_item(index)


def _index_item(item):
    if isinstance(item, torch.Tensor):
        return item
    if isinstance(item, list | range) or hasattr(item, "__array__"):
        return torch.as_tensor(item, device="cpu")
    return item


def _is_basic(index):
    items = index if isinstance(index, tuple) else (index,)
    return all(
        i is None or i is Ellipsis or (isinstance(i, int | slice) and not isinstance(i, bool))
        for i in items
    )


def _no_numpy(self, *_, **__):
    raise TypeError(
        f"can't convert {self._device.name} device type tensor to numpy. "
        "Use Tensor.cpu() to copy the tensor to host memory first."
    )


def _data_ptr(self):
    """Return an invented address; equal for two tensors exactly if they start at one place."""
    return self._block.address + self.storage_offset() * self.element_size()


def _set_data(self, other):
    if not isinstance(other, SimTensor):
        raise RuntimeError(
            f"cannot put a tensor on {other.device} into one on {self._device.name}; use .to()"
        )
    torch.Tensor.data.__set__(self, other)
    self._data, self._device, self._block = other._data, other._device, other._block


def _set_grad(self, grad):
    if isinstance(grad, torch.Tensor) and grad.device != self.device:
        raise RuntimeError(
            f"attempting to assign a gradient on {grad.device} to a tensor on {self._device.name}. "
            "Please ensure that the gradient and the tensor are on the same device"
        )
    torch.Tensor.grad.__set__(self, grad)


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
    if not self._device.machine.alive:
        return f"{prefix}tensor(..., device='{self._device.name}', of a machine that was replaced)"
    if self._device.machine.numerics:
        text = repr(self.detach().cpu())[:-1]
    else:
        text = f"tensor(..., size={tuple(self.shape)}, dtype={self.dtype}"
    start = max(text.rfind(end) for end in ("]", "..."))
    cut = min((p for p in (text.find(s, start) for s in (", size=", ", dtype=")) if p > 0),
              default=len(text))  # fmt: skip
    text = f"{text[:cut]}, device='{self._device.name}'{text[cut:]}"
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


def _no_storage(self):
    raise NotImplementedError(
        f"a tensor on {self._device.name} has no typed storage to hand out; use untyped_storage() "
        "to compare memory, .cpu() for the values"
    )


def _no_dlpack(self, **_):
    raise BufferError(f"a tensor on {self._device.name} cannot be exported; use .cpu() first")


def _record_stream(self, stream):
    """Keep the memory, once dropped, until `stream` is done; values never depend on it here."""
    if races.active is not None:
        races.active.keep_for(self, stream)


def _share(self):
    return self  # as for CUDA tensors: nothing to do


def _type(self, dtype=None, non_blocking=False, **kwargs):
    if dtype is None:
        name = torch.empty(0, dtype=self.dtype, device="cpu").type()
        return name.replace("torch.", "torch.sim.")
    if isinstance(dtype, torch.dtype):
        return self.to(dtype, non_blocking=non_blocking)
    raise NotImplementedError(f"type({dtype!r}) of a tensor on {self._device.name}; use .to()")


for _name, _value in {
    "to": _to,
    "numpy": _no_numpy,
    "__array__": _no_numpy,
    "tolist": lambda self: self.cpu().tolist(),
    "data_ptr": _data_ptr,
    "untyped_storage": lambda self: SimStorage(self),
    "storage": _no_storage,
    "__dlpack__": _no_dlpack,
    "get_device": lambda self: self._device.index,
    "is_meta": property(lambda self: False),
    "is_sim": property(lambda self: True),
    "data": property(torch.Tensor.data.__get__, _set_data),
    "grad": property(torch.Tensor.grad.__get__, _set_grad, torch.Tensor.grad.__delete__),
    "__deepcopy__": _deepcopy,
    "__repr__": _repr,
    "__str__": _repr,
    "__format__": _format,
    "__setitem__": _set_item,
    "__getitem__": _get_item,
    "new_tensor": _new_tensor,
    "pin_memory": _refuse_pin,
    "is_pinned": lambda self, device=None: False,
    "is_shared": lambda self: True,
    "share_memory_": _share,
    "type": _type,
    "record_stream": _record_stream,
    "__hash__": torch.Tensor.__hash__,
}.items():
    setattr(SimTensor, _name, _value)
