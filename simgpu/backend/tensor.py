"""The simulated tensor: values on the CPU, and a simulated device."""

import torch

from simgpu.backend.methods import CudaMethods
from simgpu.clock.memory import Block
from simgpu.kernels.facts import lookup

META = torch.device("meta")
simple = "simple operations"
everything_else = "everything else"
_handlers: dict = {}  # full name of an operation -> function that runs it
_routes: dict = {}  # C++ function of an operation -> its `Op` and its handler
watch = None  # while ranks communicate: called with every operation before it runs
observe = None  # while unwritten memory is watched: runs every operation, by its handler
_STRIDED = torch.strided
_make_wrapper = torch.Tensor._make_wrapper_subclass
_AUTOCAST_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)


def handles(operation):
    """Register a function ``(op, args, kwargs)`` for an operation, an overload packet of aten."""

    def register(function):
        _handlers[str(operation)] = function
        _routes.clear()
        return function

    return register


def _find_route(func):
    op = lookup(func)
    kind = simple if op.simple else everything_else
    handler = _handlers.get(op.full_name) or _handlers[kind]
    route = _routes[func._op] = op, handler
    return route


class SimTensor(CudaMethods, torch.Tensor):
    """A tensor on a simulated GPU.

    To PyTorch's C++ code it is a tensor on the device ``meta:i``: shape and strides, no data.
    `_data` holds the values (a CPU tensor, or a meta tensor if only shapes are kept), `_device` the
    simulated device and `_block` its piece of that device's memory, which views share.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def device(self):
        """The simulated device, ``sim:i`` (see `simgpu.naming`)."""
        return self._device.torch_device

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Pass an operation to its handler."""
        if len(types) > 1 and not all(map(_leaves_dispatch_to_us, types)):
            return NotImplemented
        op, handler = _routes.get(func._op) or _find_route(func)
        if watch is not None:
            watch(op, args, kwargs)
        if observe is not None:
            return observe(handler, op, args, kwargs or {})
        return handler(op, args, kwargs or {})

    def __tensor_flatten__(self):
        """Name no inner tensors: PyTorch only asks whether this tensor is fake, and it is not."""
        return [], None

    @staticmethod
    def __tensor_unflatten__(*_):
        """Refuse to be traced; the method must exist for modules to swap tensors."""
        raise NotImplementedError(
            "torch.compile and torch.export cannot trace programs on simulated GPUs, which run one "
            "operation at a time; call the function or the module itself"
        )


def _leaves_dispatch_to_us(kind):
    """Whether operands of a type leave dispatch to `SimTensor`; DTensors unwrap theirs first."""
    own = kind.__torch_dispatch__
    return kind is SimTensor or own is _PLAIN or kind.__module__.startswith("simgpu.")


_PLAIN = torch.Tensor.__torch_dispatch__


def wrap(data, device, block=None) -> SimTensor:
    """Return a simulated tensor around `data`, in new memory unless a `block` is given."""
    if data.is_nested:
        raise NotImplementedError(
            "simulated GPUs do not support nested tensors; pad them to one size"
        )
    if data.layout is not _STRIDED:
        raise NotImplementedError(
            f"simulated GPUs do not support {data.layout} tensors; use dense ones"
        )
    if block is None:
        block = Block(device, data.untyped_storage().nbytes())
    size, strides, offset = data.size(), None, data.storage_offset() or None
    # Passing strides takes time, and PyTorch infers those of most contiguous tensors.
    if offset is not None or 1 in size or 0 in size or not data.is_contiguous():
        strides = data.stride()
    tensor = _make_wrapper(
        SimTensor, size, strides, offset, None, data.dtype, _STRIDED, device.cpp_device,
        False, False, None, False, False, _AUTOCAST_KEYS,
    )  # fmt: skip
    tensor._data = data
    tensor._device = device
    tensor._block = block
    return tensor


def _geometry(tensor):
    return tensor.shape, tensor.stride(), tensor.storage_offset()


def refresh(tensor):
    """Update the wrapper to the present size, strides and offset of its data."""
    data = tensor._data
    if _geometry(data) != _geometry(tensor):
        tensor._block.resize(data.untyped_storage().nbytes())
        torch.Tensor.data.__set__(tensor, wrap(data, tensor._device, tensor._block))


def refuse_overlap(tensors):
    """Raise PyTorch's own error if a tensor that is written to repeats its elements."""
    for tensor in tensors:
        if any(n > 1 and step == 0 for n, step in zip(tensor.shape, tensor.stride(), strict=True)):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a "
                "single memory location. Please clone() the tensor before performing the operation."
            )


MAX_CONTROL = 2**16  # elements of a small tensor


def has_values(machine, dtype, numel) -> bool:
    """Whether a new tensor has values; small ones of integers, bools and float64 always do.

    PyTorch's own code reads the former: sizes, votes, indices, pickled objects. In float64 programs
    count and time, as the meters of DETR and MAE do.
    """
    is_control = dtype is torch.float64 or not (dtype.is_floating_point or dtype.is_complex)
    return machine.numerics or (is_control and numel <= MAX_CONTROL)


def to_meta(data):
    """Return a CPU tensor as a meta tensor with its shape and strides."""
    if data.device.type == "meta":
        return data
    return torch.empty_strided(data.shape, data.stride(), dtype=data.dtype, device=META)


def mixed_devices(first, second):
    """Return PyTorch's own error for operands on two devices."""
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{first} and {second}!"
    )


def shapes_only(name):
    """Return the error for an operation that needs values on a machine without them."""
    return RuntimeError(
        f"{name} needs values, but this simulated machine keeps shapes only "
        "(numerics=False); configure it with numerics=True, or let it work on integers that have "
        "values there: small ones that the program makes, the indices of topk, and what is "
        "computed from these alone"
    )


def no_shapes(name):
    """Return the error for an operation whose shapes PyTorch cannot infer."""
    return NotImplementedError(
        f"PyTorch has no rule for the shapes of {name}, and this simulated machine keeps shapes "
        "only (numerics=False); configure it with numerics=True"
    )
