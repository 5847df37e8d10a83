"""Copies between simulated GPUs and the host: values, time, and which copies the host waits for.

As on a real GPU:

- A copy between pageable host memory and a device blocks the host until it is done.
- A copy with ``non_blocking=True`` between *pinned* host memory and a device returns at once.
  ``tensor.to("cpu", non_blocking=True)`` allocates pinned memory for its result.
- The result of a non-blocking copy to the host may be read only after the host has synchronised
  with it. Until then it holds NaN here (the smallest value of a signed integer type, the largest
  of an unsigned one, True for bool), so reading too early shows every time.
"""

import torch

from simgpu.backend.operations import endless
from simgpu.backend.operations.known_values import overwrite
from simgpu.backend.operations.run import run
from simgpu.backend.pinned import (
    MISSING,
    HostCopy,
    arrived,
    is_pinned,
    is_placeholder,
    mark_pinned,
    note_read,
    placeholder,
    poison,
)
from simgpu.backend.tensor import (
    META,
    SimTensor,
    handles,
    has_values,
    refuse_overlap,
    shapes_only,
    wrap,
)
from simgpu.clock import current
from simgpu.clock.memory import Block
from simgpu.kernels.facts import aten, lookup
from simgpu.naming import is_ordinary
from simgpu.races import detector as races


def to_host(tensor, dtype=None, non_blocking=False, memory_format=None) -> torch.Tensor:
    """Copy a simulated tensor to the host; see the module docstring for whether the host waits."""
    tensor = _prepare(tensor, dtype)
    device, data = tensor._device, tensor._data
    machine = device.machine
    real = data.device.type == "cpu"
    result = _clone(data, memory_format) if real else placeholder(data)
    if data.numel() == 0:
        return result
    if not non_blocking:
        _check_races(device, (device.name, "cpu"), tensor, result)
        device.to_host(data.nbytes)
        return result
    end = device.to_host(data.nbytes, pinned=True, wait=False)
    if real:
        values, result = result, torch.empty_like(result)
        machine.pending.append(HostCopy(result.data, values, end))
    mark_pinned(result)
    _check_races(device, (device.name, "cpu"), tensor, result)
    return result


def to_device(data, device, dtype=None, non_blocking=False, memory_format=None) -> SimTensor:
    """Copy a host tensor to a simulated device."""
    numerics = has_values(device.machine, dtype or data.dtype, data.numel())
    device.memory.check(data.numel() * (dtype or data.dtype).itemsize)
    found = arrived(device, data) if numerics else data
    values = found.to(dtype=dtype) if dtype not in (None, data.dtype) else found
    if numerics:
        values = _clone(values, memory_format) if values is data else values
    else:
        values = torch.empty_like(values, device=META)
    result = wrap(values, device)
    if data.dim() == 0 and device.sink.has_constants:
        device.sink.launch("scalar_tensor", num_bytes=values.nbytes, results=result)
    else:
        _charge_to_device(data, result, values.nbytes, non_blocking, found)
    return result


def _charge_to_device(data, target, num_bytes, non_blocking, found):
    """Charge a copy from the host; `found` is what it reads (`arrived`)."""
    if num_bytes == 0:
        return
    device = target._device
    _check_races(device, ("cpu", device.name), data, target)
    pinned = is_pinned(data)
    device.from_host(num_bytes, pinned, non_blocking)
    checked = current.ranks is not None and found is data and not is_placeholder(data)
    if pinned and non_blocking and checked:
        note_read(device.machine, data, device, device.current_stream().end)


def to_peer(tensor, device, dtype=None, memory_format=None) -> SimTensor:
    """Copy a simulated tensor to another simulated device; the host does not wait."""
    tensor = _prepare(tensor, dtype)
    data = tensor._data
    block = Block(device, data.nbytes)
    result = wrap(_clone(data, memory_format), device, block)
    if data.numel():
        device.machine.copy_peer(tensor._device, device, data.nbytes)
        _check_races(tensor._device, (tensor._device.name, device.name), tensor, result, device)
    return result


def _check_races(device, names, source, target, peer=None):
    if races.active is not None:
        races.active.touch(device, "copy {} -> {}".format(*names), [source], [target], peer)


def _clone(data, memory_format):
    return data.clone(memory_format=memory_format or torch.preserve_format)


def _prepare(tensor, dtype):
    """Do on the source device what a copy engine cannot: convert the dtype, gather elements."""
    current.check_alive(tensor._device.machine, f"a tensor on {tensor._device.name}")
    if dtype not in (None, tensor.dtype):
        return run(lookup(aten._to_copy.default), (tensor,), {"dtype": dtype})
    if not _is_dense(tensor._data):
        return run(lookup(aten.clone.default), (tensor,), {})
    return tensor


def _is_dense(data):
    return data.is_contiguous() or torch.ops.aten.is_non_overlapping_and_dense.default(data)


@handles(aten._to_copy)
def _to_copy(op, args, kwargs):
    """``aten::_to_copy`` of a simulated tensor: convert its dtype, or copy it to a device."""
    tensor = args[0]
    target = kwargs.get("device")
    dtype, memory_format = kwargs.get("dtype"), kwargs.get("memory_format")
    if target is not None and is_ordinary(target):
        if target.type == "cpu":
            return to_host(tensor, dtype, kwargs.get("non_blocking", False), memory_format)
        if target.type == "meta":
            return torch.empty_like(tensor._data, device=META, dtype=dtype)
        raise NotImplementedError(
            f"cannot copy from {tensor._device.name} to {target}: simulated and real devices do "
            "not mix; copy to the host first"
        )
    device = tensor._device if target is None else current.find_device(target)
    if device is not tensor._device:
        return to_peer(tensor, device, dtype, memory_format)
    kwargs = {k: v for k, v in kwargs.items() if k in ("dtype", "memory_format")}
    return run(op, args, kwargs)


@handles(aten.copy_)
def _copy_into(op, args, kwargs):
    """``aten::copy_`` with at least one simulated tensor."""
    target, source = args[0], args[1]
    non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    if isinstance(target, SimTensor):
        device = target._device
        current.check_alive(device.machine, f"a tensor on {device.name}")
        if isinstance(source, SimTensor) and source._device is device:
            return target if _is_same_data(target, source) else run(op, args, kwargs)
        _copy_into_device(target, source, device, non_blocking)
    else:
        _copy_into_host(target, source, non_blocking)
    return target


def _is_same_data(target, source):
    """Whether two tensors are the same elements in the same memory, which PyTorch does not copy.

    ``x[0:2] += y`` copies such a view onto itself after the addition.
    """
    return (
        target._block is source._block
        and target.dtype is source.dtype
        and target.shape == source.shape
        and target.stride() == source.stride()
        and target.storage_offset() == source.storage_offset()
    )


def _copy_into_device(target, source, device, non_blocking):
    refuse_overlap([target])
    if isinstance(source, SimTensor):
        source = _prepare(source, target.dtype)
        values = source._data
        num_bytes = values.nbytes
        _check_shapes(target, values)
        if num_bytes:
            device.machine.copy_peer(source._device, device, num_bytes)
            names = source._device.name, device.name
            _check_races(source._device, names, source, target, device)
    else:
        values = arrived(device, source)
        _check_shapes(target, values)
        num_bytes = source.numel() * target.element_size()
        _charge_to_device(source, target, num_bytes, non_blocking, values)
    real = target._data.device.type == values.device.type == "cpu"
    overwrite(target, real)
    if real:
        target._data.copy_(values)
    if not _is_dense(target._data):  # the copy engine filled a dense buffer: scatter it now
        device.sink.launch("copy", num_bytes=2 * target._data.nbytes)
        if races.active is not None:
            races.active.touch(device, "copy", writes=[target])


def _copy_into_host(target, source, non_blocking):
    source = _prepare(source, target.dtype)
    device, values = source._device, source._data
    machine = device.machine
    _check_shapes(target, values)
    if not values.numel():
        return
    pinned = is_pinned(target)
    waits = not (pinned and non_blocking)
    _check_races(device, (device.name, "cpu"), source, target)
    end = device.to_host(values.nbytes, pinned, wait=waits)
    if values.device.type == "meta":
        if not is_placeholder(target):
            poison(target)
    elif waits:
        target.copy_(values)
    else:
        machine.pending.append(HostCopy(target.data, values.expand_as(target).clone(), end))


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


@handles(aten._local_scalar_dense)
def _local_scalar(op, args, kwargs):
    """``.item()``: read one element; the host waits for all work before it in the stream."""
    tensor = args[0]
    device = tensor._device
    current.check_alive(device.machine, f"a tensor on {device.name}")
    real, number = tensor._data.device.type == "cpu", tensor._block.equal
    if not real and number is None and current.ranks is None:
        raise shapes_only("item()")
    if not real and number is None and tensor.dtype is torch.bool:
        endless.check(device)
    if races.active is not None:
        races.active.touch(device, "item", [tensor])
    device.to_host(tensor.element_size(), reason="item")
    if not real and number is not None:
        return op.func(torch.full_like(tensor._data, number, device="cpu"))
    if not real and tensor.is_floating_point():
        return MISSING
    return op.func(tensor._data if real else placeholder(tensor._data))
