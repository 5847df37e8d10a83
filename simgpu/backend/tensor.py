"""The simulated tensor: real numbers on the CPU, and a device that is simulated."""

import torch

from simgpu.backend.methods import CudaMethods
from simgpu.backend.ops import lookup
from simgpu.clock.memory import Block

META = torch.device("meta")
simple = "simple operations"
everything_else = "everything else"
_handlers: dict = {}  # full names of operations -> what runs them
_routes: dict = {}  # operations, as C++ has them -> what is known of each, and what runs it
watch = None  # while ranks communicate: sees every operation before it runs
_STRIDED = torch.strided
_make_wrapper = torch.Tensor._make_wrapper_subclass
_AUTOCAST_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)


def handles(operation):
    """Register a function ``(op, args, kwargs)`` for an operation (aten's packet), see `Op`."""

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

    To PyTorch's C++ it is a tensor on the device ``meta:i``: shapes and strides, no data. `_data`
    holds the values (a CPU tensor, or a meta tensor where only shapes are wanted), `_device` the
    simulated device and `_block` its piece of that device's memory, which views share.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def device(self):
        """The simulated device, ``sim:i`` (see `simgpu.naming`)."""
        return self._device.torch_device

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Hand an operation to whoever handles it."""
        if len(types) > 1 and not all(map(_lets_us_run, types)):
            return NotImplemented
        op, handler = _routes.get(func._op) or _find_route(func)
        if watch is not None:
            watch(op, args, kwargs)
        return handler(op, args, kwargs or {})

    def __tensor_flatten__(self):
        """Name no tensors inside: all that may ask is whether this one is real, and it is."""
        return [], None

    @staticmethod
    def __tensor_unflatten__(*_):
        """Refuse what traces a program; that there is such a method lets modules swap tensors."""
        raise NotImplementedError(
            "torch.compile and torch.export cannot trace programs on simulated GPUs, which run one "
            "operation at a time; call the function or the module itself"
        )


def _lets_us_run(kind):
    """Whether a type of operands leaves the operation to us: DTensors unwrap theirs first."""
    own = kind.__torch_dispatch__
    return kind is SimTensor or own is _PLAIN or kind.__module__.startswith("simgpu.")


_PLAIN = torch.Tensor.__torch_dispatch__


def wrap(data, device, block=None) -> SimTensor:
    """Return a simulated tensor around `data`, in new memory unless a `block` is given."""
    if data.is_nested:
        raise NotImplementedError("simulated GPUs have no nested tensors; pad them to one size")
    if data.layout is not _STRIDED:
        raise NotImplementedError(f"simulated GPUs have no {data.layout} tensors; use dense ones")
    if block is None:
        block = Block(device, data.untyped_storage().nbytes())
    size, strides, offset = data.size(), None, data.storage_offset() or None
    # To hand strides on takes time; where they can be no others, PyTorch knows them.
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
    """Give the wrapper the size, strides and offset that its data have now."""
    data = tensor._data
    if _geometry(data) != _geometry(tensor):
        tensor._block.resize(data.untyped_storage().nbytes())
        torch.Tensor.data.__set__(tensor, wrap(data, tensor._device, tensor._block))


def refuse_overlap(tensors):
    """Raise PyTorch's own error if one of the tensors, to be written to, repeats its elements."""
    for tensor in tensors:
        if any(n > 1 and step == 0 for n, step in zip(tensor.shape, tensor.stride(), strict=True)):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a "
                "single memory location. Please clone() the tensor before performing the operation."
            )


MAX_CONTROL = 2**16  # elements


def has_values(machine, dtype, numel) -> bool:
    """Whether a new tensor has values; in ranks, small ones of integers or bools always have.

    PyTorch's own code reads those: sizes, votes, indices, pickled objects.
    """
    return machine.numerics or (
        machine.keeps_control
        and numel <= MAX_CONTROL
        and not (dtype.is_floating_point or dtype.is_complex)
    )


def to_meta(data):
    """Return the shape of a CPU tensor, or of a meta tensor itself."""
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
    """Return the error for an operation that needs values where there are none."""
    return RuntimeError(
        f"{name} needs values, but this simulated machine keeps shapes only "
        "(numerics=False); configure it with numerics=True"
    )


def no_shapes(name):
    """Return the error for an operation of which PyTorch cannot work out the shapes alone."""
    return NotImplementedError(
        f"PyTorch has no rule for the shapes of {name}, and this simulated machine keeps shapes "
        "only (numerics=False); configure it with numerics=True"
    )
