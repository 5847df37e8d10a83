"""The methods of a simulated tensor for which PyTorch's C++ code would give wrong answers.

C++ sees a tensor on ``meta``, which has no values and whose device has another name. All other
methods are inherited unchanged.
"""

import copy

import torch

from simgpu.backend.storage import SimStorage, TypedSimStorage
from simgpu.clock import current
from simgpu.naming import CUDA, is_ordinary, spelling, torch_device
from simgpu.races import detector as races

_OURS = {"_data", "_device", "_block", "_is_param"}  # attributes of a `SimTensor` or parameter


class CudaMethods:
    """Methods that answer as a CUDA tensor's do; mixed into `simgpu.SimTensor`."""

    def to(self, *args, **kwargs):
        """Do what PyTorch's ``to`` does; C++ does not know simulated devices by their names."""
        first = args[0] if args else None
        if isinstance(first, torch.dtype | type):  # also ``x.to(float)``
            device, *rest, memory_format = _to_dtype(*args, **kwargs)
        elif isinstance(kwargs.get("tensor", first), torch.Tensor):
            device, *rest, memory_format = _to_tensor(*args, **kwargs)
        else:
            device, *rest, memory_format = _to_device(*args, **kwargs)
        if device is not None:
            device = self._other_device(device)
        return torch.Tensor.to(self, device, *rest, memory_format=memory_format)

    def _other_device(self, device):
        """Return the device for a name or a number, or None if the tensor is on it."""
        if isinstance(device, bool) or not isinstance(device, torch.device | str | int):
            raise TypeError(
                f"to(): {device!r} is not a device, dtype or tensor; give one like "
                f"'{spelling.name}:0', torch.float64 or another tensor"
            )
        device = device if isinstance(device, int) else torch_device(device)
        if isinstance(device, int) or not is_ordinary(device):
            device = current.find_device(device).torch_device
        if device != self.device:
            return device
        current.check_alive(self._device.machine, f"a tensor on {device}")
        return None

    def type(self, dtype=None, non_blocking=False, **kwargs):
        """Return the name of the tensor's type, or the tensor converted to `dtype`."""
        if dtype is None:
            name = torch.empty(0, dtype=self.dtype, device="cpu").type()
            return name.replace("torch.", f"torch.{spelling.name}.")
        if isinstance(dtype, torch.dtype):
            return self.to(dtype, non_blocking=non_blocking)
        raise NotImplementedError(
            f"a tensor on {self._device.name} does not support type({dtype!r}); use .to()"
        )

    def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
        """Return a new tensor, by default with the dtype and device of this one."""
        return torch.tensor(
            data,
            dtype=dtype or self.dtype,
            device=device or self.device,
            requires_grad=requires_grad,
        )

    def new(self, *args, device=None):
        """Return a tensor of this type with the given sizes, or with the given values."""
        device = device or self.device
        if len(args) == 1 and not isinstance(args[0], int | torch.Size):
            data = args[0].detach() if isinstance(args[0], torch.Tensor) else args[0]
            return torch.as_tensor(data, dtype=self.dtype, device=device)
        return torch.empty(*(args or (0,)), dtype=self.dtype, device=device)

    def __getitem__(self, index):
        return torch.Tensor.__getitem__(self, index if type(index) is int else _index(index))

    def __setitem__(self, index, value):
        """``self[index] = value``; a number becomes a fill, not a copy of a host tensor."""
        index = _index(index)
        if not isinstance(value, torch.Tensor):
            if _is_basic(index):
                self[index].fill_(value)
                return
            value = torch.tensor(value, dtype=self.dtype)
        torch.Tensor.__setitem__(self, index, value)

    def tolist(self):
        """Return the values as nested lists; the host waits for them."""
        return self.cpu().tolist()

    def numpy(self, *, force=False):
        """Refuse, as a CUDA tensor does, unless `force` allows a copy to the host."""
        if force:
            return self.detach().cpu().numpy()
        raise TypeError(
            f"can't convert {self._device.name} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def __array__(self, *_, **__):
        return self.numpy()

    def __dlpack__(self, **_):
        raise BufferError(f"a tensor on {self._device.name} cannot be exported; use .cpu() first")

    def __repr__(self, *, tensor_contents=None):
        """Return what PyTorch prints for a CUDA tensor; printing copies to the host and waits."""
        prefix = "Parameter containing:\n" if getattr(self, "_is_param", False) else ""
        if not self._device.machine.alive:
            return (
                f"{prefix}tensor(..., device='{self._device.name}', of a machine that was replaced)"
            )
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

    __str__ = __repr__

    def __format__(self, spec):
        return self.item().__format__(spec) if self.dim() == 0 else object.__format__(self, spec)

    def __copy__(self):
        """Return another tensor with the same values in the same memory, as PyTorch does."""
        result = self.detach()
        if getattr(self, "_is_param", False):
            result = torch.nn.Parameter(result)
        result.requires_grad_(self.requires_grad)
        vars(result).update({**vars(self), **vars(result)})  # attributes that a program has set
        return result

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment; use .detach() first"
            )
        if id(self) in memo:
            return memo[id(self)]
        with torch.no_grad():
            if getattr(self, "_is_param", False):  # PyTorch copies parameters one by one
                result = self.detach().clone()
                result._is_param = True
            else:
                result = self._copy_with_storage(memo)
        result.requires_grad_(self.requires_grad)
        if self.grad is not None:
            result.grad = copy.deepcopy(self.grad, memo)
        memo[id(self)] = result
        return result

    def _copy_with_storage(self, memo):
        """Return this tensor in a copy of its storage, made once for all tensors that share it."""
        whole = memo.get(id(self._block))
        if whole is None:
            length = self.untyped_storage().nbytes() // self.element_size()
            whole = self.detach().as_strided((length,), (1,), 0).clone()
            memo[id(self._block)] = whole
        flat = whole.view(self.dtype)
        return flat.as_strided(self.shape, self.stride(), self.storage_offset()).detach()

    def get_device(self):
        """Return the number of the device."""
        return self._device.torch_device.index

    @property
    def is_meta(self):
        """False, although C++ sees a meta tensor."""
        return False

    @property
    def is_cuda(self):
        """Whether the program knows the device as ``cuda``."""
        return self._device.torch_device.type == CUDA

    @property
    def is_sim(self):
        """True, like ``is_cuda`` of a CUDA tensor."""
        return True

    @property
    def data(self):
        """The same values, which autograd does not track."""
        return torch.Tensor.data.__get__(self)

    @data.setter
    def data(self, other):
        if not isinstance(other, CudaMethods):
            move_data(self, other)
            return
        torch.Tensor.data.__set__(self, other)
        self._data, self._device, self._block = other._data, other._device, other._block

    @property
    def grad(self):
        """The gradient; it must be on the same device."""
        return torch.Tensor.grad.__get__(self)

    @grad.setter
    def grad(self, grad):
        if isinstance(grad, torch.Tensor) and grad.device != self.device:
            raise RuntimeError(
                f"attempting to assign a gradient on {grad.device} to a tensor on "
                f"{self._device.name}. Please ensure that the gradient and the tensor are on the "
                "same device"
            )
        torch.Tensor.grad.__set__(self, grad)

    @grad.deleter
    def grad(self):
        torch.Tensor.grad.__delete__(self)

    def data_ptr(self):
        """Return a synthetic address: the same for tensors that start at the same byte.

        It is 0 for a tensor without elements, as on CUDA.
        """
        if self.numel() == 0:
            return 0
        return self._block.address + self.storage_offset() * self.element_size()

    def untyped_storage(self):
        """Return an object without data that tells whether two tensors share memory."""
        return SimStorage(self)

    def _typed_storage(self):
        """Return the storage, counted in elements, as PyTorch's own code asks for it."""
        return TypedSimStorage(self)

    def storage(self):
        """Refuse: there is no data to return."""
        raise NotImplementedError(
            f"a tensor on {self._device.name} has no typed storage; use untyped_storage() to "
            "compare memory, .cpu() for the values"
        )

    def pin_memory(self, *_, **__):
        """Refuse, as a CUDA tensor does."""
        raise RuntimeError(f"cannot pin '{self.type()}': only dense CPU tensors can be pinned")

    def is_pinned(self, device=None):
        """Return False: only host memory can be pinned."""
        return False

    def is_shared(self):
        """Return True, as for CUDA tensors."""
        return True

    def share_memory_(self):
        """Return the tensor; as for CUDA tensors, there is nothing to do."""
        return self

    def record_stream(self, stream):
        """Keep the memory, once freed, until `stream` is done; here values never depend on it."""
        if races.active is not None:
            races.active.keep_for(self, stream)


def attributes(tensor) -> dict:
    """Return the attributes that a program has set on a tensor."""
    return {name: value for name, value in vars(tensor).items() if name not in _OURS}


def move_data(tensor, other) -> None:
    """Do ``tensor.data = other`` where one of the two is on the host and the other is not.

    The tensor stays the same object, with its attributes, and its gradient moves with it.

    Raises
    ------
    RuntimeError
        If the tensor is the result of an operation that autograd has recorded.
    """
    if tensor.grad_fn is not None:
        raise RuntimeError(
            f"cannot assign a tensor on {other.device} to the data of one on {tensor.device} that "
            "autograd has computed; use .to()"
        )
    data, grad, own = other.detach(), tensor.grad, attributes(tensor)
    grad = None if grad is None else grad.to(data.device)
    as_grad = grad is not None and grad.shape != data.shape  # as while FSDP1 gathers parameters
    new = torch.empty_like(grad) if as_grad else data
    if isinstance(tensor, torch.nn.Parameter):
        new = torch.nn.Parameter(new, tensor.requires_grad)
    new.requires_grad_(tensor.requires_grad)
    new.grad = grad
    if as_grad:
        new.data = data
    torch.utils.swap_tensors(tensor, new)
    vars(tensor).update(own)


# The three forms of `Tensor.to`: each returns device, dtype, non_blocking, copy, memory_format.
def _to_device(device=None, dtype=None, non_blocking=False, copy=False, *, memory_format=None):
    return device, dtype, non_blocking, copy, memory_format


def _to_dtype(dtype, non_blocking=False, copy=False, *, memory_format=None):
    return None, dtype, non_blocking, copy, memory_format


def _to_tensor(tensor, non_blocking=False, copy=False, *, memory_format=None):
    return tensor.device, tensor.dtype, non_blocking, copy, memory_format


def _index(index):
    """Return an index with lists and arrays as host tensors, which are copied as on CUDA."""
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
