"""Copies between simulated GPUs and the host: values, time, and who waits for whom.

As on a real GPU:

- A copy between ordinary host memory and a device keeps the host busy until it is done.
- A copy with ``non_blocking=True`` between *pinned* host memory and a device returns at once.
  ``tensor.to("cpu", non_blocking=True)`` allocates pinned memory for its result.
- What a non-blocking copy brings to the host may be read only after the host has synchronised
  with it. Until then it holds NaN here (the smallest value of a signed integer type, the largest
  of an unsigned one, True for bool), so that reading too early shows every time.
"""

import torch

from d2lmini.sim import access
from d2lmini.sim.memory import Block
from d2lmini.sim.ops import aten
from d2lmini.sim.tensor import (
    DISPATCH,
    META,
    SimTensor,
    is_ordinary,
    run,
    shapes_only,
    simulated,
    wrap,
)


class HostCopy:
    """A copy to the host that is under way: what will be in `target` from `end` on."""

    __slots__ = ("end", "target", "values")

    def __init__(self, target, values, end):
        self.target, self.values, self.end = target, values, end
        _poison(target)

    def fill(self):
        """Put the values where they belong; autograd does not take it for a change."""
        self.target.copy_(self.values)


def _poison(tensor):
    if tensor.numel() == 0:
        return
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(float("nan"))
    elif tensor.dtype is torch.bool:
        tensor.fill_(True)
    else:
        info = torch.iinfo(tensor.dtype)
        tensor.fill_(info.min if info.min < 0 else info.max)


def empty_pinned(*size, dtype=None) -> torch.Tensor:
    """Return an uninitialised host tensor in pinned (page-locked) memory.

    Non-blocking copies from and to it do not stop the host. ``pin_memory=True`` needs a real GPU;
    this does not: it is ordinary memory that the simulator remembers as pinned.

    Parameters
    ----------
    *size : int or tuple of int
        Shape.
    dtype : torch.dtype, optional
        Default: PyTorch's default type.

    Examples
    --------
    >>> import torch
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1)
    >>> buffer = sim.empty_pinned(2)
    >>> buffer.copy_(torch.ones(2, device=device), non_blocking=True)
    tensor([nan, nan])
    >>> sim.synchronize()
    >>> buffer
    tensor([1., 1.])
    """
    tensor = torch.empty(*size, dtype=dtype, device="cpu")
    _mark_pinned(tensor)
    return tensor


def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a host tensor in pinned memory (the tensor itself if it is there)."""
    if isinstance(tensor, SimTensor):
        raise ValueError(f"cannot pin a tensor on {tensor.device}; only host tensors can be pinned")
    if is_pinned(tensor):
        return tensor
    pinned = tensor.detach().clone()
    _mark_pinned(pinned)
    return pinned


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether a host tensor lies in memory that the simulator (or CUDA) has pinned."""
    if isinstance(tensor, SimTensor):
        return False
    return getattr(tensor.untyped_storage(), "_sim_pinned", False) or tensor.is_pinned()


def _mark_pinned(tensor):
    tensor.untyped_storage()._sim_pinned = True


def placeholder(data) -> torch.Tensor:
    """Return a host tensor of `data`'s shape and type that is all NaN and takes no memory.

    What a copy to the host returns where only shapes are kept: one element, repeated.
    """
    one = torch.empty((), dtype=data.dtype, device="cpu")
    _poison(one)
    return one.expand(data.shape)


def to_host(tensor, dtype=None, non_blocking=False, memory_format=None) -> torch.Tensor:
    """Copy a simulated tensor to the host; see the module's text for who waits."""
    tensor = _prepare(tensor, dtype)
    device, data = tensor._device, tensor._data
    machine = device.machine
    if machine.numerics:
        result = _clone(data, memory_format)
    else:
        result = placeholder(data)
    if data.numel() == 0:
        return result
    end = machine.copy_to_host(device, data.nbytes, pinned=non_blocking)
    if not non_blocking:
        machine.wait_until(end, f"wait for copy {device.name} -> cpu")
        return result
    if machine.numerics:
        values, result = result, torch.empty_like(result)
        machine.pending.append(HostCopy(result.data, values, end))
    _mark_pinned(result)
    return result


def to_device(data, device, dtype=None, non_blocking=False, memory_format=None) -> SimTensor:
    """Copy a host tensor to a simulated device."""
    numerics = device.machine.numerics
    device.memory.check(data.numel() * (dtype or data.dtype).itemsize)
    values = data.to(dtype=dtype) if dtype not in (None, data.dtype) else data
    if numerics:
        values = _clone(values, memory_format) if values is data else values
    else:
        values = torch.empty_like(values, device=META)
    result = wrap(values, device)
    _charge_to_device(data, values.nbytes, device, non_blocking)
    return result


def _charge_to_device(data, num_bytes, device, non_blocking):
    if num_bytes == 0:
        return
    machine = device.machine
    pinned = is_pinned(data)
    end = machine.copy_to_device(device, num_bytes, pinned=pinned)
    if not (pinned and non_blocking):
        machine.wait_until(end, f"wait for copy cpu -> {device.name}")


def to_peer(tensor, device, dtype=None, memory_format=None) -> SimTensor:
    """Copy a simulated tensor to another simulated device; the host does not wait."""
    tensor = _prepare(tensor, dtype)
    data = tensor._data
    block = Block(device.memory, data.nbytes)
    values = _clone(data, memory_format)
    if data.numel():
        device.machine.copy_peer(tensor._device, device, data.nbytes)
    return wrap(values, device, block)


def _clone(data, memory_format):
    return data.clone(memory_format=memory_format or torch.preserve_format)


def _prepare(tensor, dtype):
    """Do on the source device what a copy engine cannot: change the type, gather the elements."""
    access.check_alive(tensor._device.machine, f"a tensor on {tensor._device.name}")
    if dtype not in (None, tensor.dtype):
        return run(aten._to_copy.default, (tensor,), {"dtype": dtype})
    if not _is_dense(tensor._data):
        return run(aten.clone.default, (tensor,), {})
    return tensor


def _is_dense(data):
    return data.is_contiguous() or torch.ops.aten.is_non_overlapping_and_dense.default(data)


def _to_copy(func, args, kwargs):
    """``aten::_to_copy`` of a simulated tensor: another type, or another device."""
    tensor = args[0]
    target = kwargs.get("device")
    dtype, memory_format = kwargs.get("dtype"), kwargs.get("memory_format")
    if target is not None and is_ordinary(target):
        if target.type == "cpu":
            return to_host(tensor, dtype, kwargs.get("non_blocking", False), memory_format)
        if target.type == "meta":
            return torch.empty_like(tensor._data, device=META, dtype=dtype)
        raise NotImplementedError(
            f"cannot copy from {tensor.device} to {target}: simulated and real devices do not "
            "mix; copy to the host first"
        )
    device = tensor._device if target is None else access.find_device(simulated(target))
    if device is not tensor._device:
        return to_peer(tensor, device, dtype, memory_format)
    kwargs = {k: v for k, v in kwargs.items() if k in ("dtype", "memory_format")}
    return run(func, args, kwargs)


def _copy_into(func, args, kwargs):
    """``aten::copy_`` where at least one side is simulated."""
    target, source = args[0], args[1]
    non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    if isinstance(target, SimTensor):
        device = target._device
        access.check_alive(device.machine, f"a tensor on {device.name}")
        if isinstance(source, SimTensor) and source._device is device:
            return run(func, args, kwargs)
        _copy_into_device(target, source, device, non_blocking)
    else:
        _copy_into_host(target, source, non_blocking)
    return target


def _copy_into_device(target, source, device, non_blocking):
    if isinstance(source, SimTensor):
        source = _prepare(source, target.dtype)
        values = source._data
        num_bytes = values.nbytes
        _check_shapes(target, values)
        if num_bytes:
            device.machine.copy_peer(source._device, device, num_bytes)
    else:
        values = source
        _check_shapes(target, values)
        _charge_to_device(source, source.numel() * target.element_size(), device, non_blocking)
    if device.machine.numerics:
        target._data.copy_(values)
    if not _is_dense(target._data):  # the copy engine wrote to a dense buffer: now scatter it
        machine = device.machine
        num_bytes = 2 * target._data.nbytes
        machine.launch(device, "copy", machine.gpu.seconds(0, num_bytes), 0, num_bytes)


def _copy_into_host(target, source, non_blocking):
    source = _prepare(source, target.dtype)
    device, values = source._device, source._data
    machine = device.machine
    _check_shapes(target, values)
    if not values.numel():
        return
    pinned = is_pinned(target)
    end = machine.copy_to_host(device, values.nbytes, pinned=pinned)
    waits = not (pinned and non_blocking)
    if waits:
        machine.wait_until(end, f"wait for copy {device.name} -> cpu")
    if not machine.numerics:
        if not _is_placeholder(target):
            _poison(target)
    elif waits:
        target.copy_(values)
    else:
        machine.pending.append(HostCopy(target.data, values.expand_as(target).clone(), end))


def _is_placeholder(tensor):
    return tensor.numel() > 1 and not any(tensor.stride())


def _check_shapes(target, values):
    if target.shape == values.shape:
        return
    if values.dim() > target.dim() or torch.broadcast_shapes(target.shape, values.shape) != (
        target.shape
    ):
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{list(torch.broadcast_shapes(target.shape, values.shape))}"
        )


def _local_scalar(func, args, kwargs):
    """``.item()``: read one element; the host waits for all work before it in the stream."""
    tensor = args[0]
    device = tensor._device
    access.check_alive(device.machine, f"a tensor on {device.name}")
    machine = device.machine
    if not machine.numerics:
        raise shapes_only("item()")
    end = machine.copy_to_host(device, tensor.element_size(), pinned=False)
    machine.wait_until(end, "item")
    return func(tensor._data)


def _physically(func):
    """PyTorch marks a conjugate or negative view by a bit that the wrapper cannot carry."""
    return lambda _, args, kwargs: run(func, args, kwargs)


DISPATCH[aten._conj] = _physically(aten.conj_physical.default)
DISPATCH[aten._neg_view] = _physically(aten.neg.default)
DISPATCH[aten._to_copy] = _to_copy
DISPATCH[aten.copy_] = _copy_into
DISPATCH[aten._local_scalar_dense] = _local_scalar
