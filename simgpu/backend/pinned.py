"""Host memory in copies: pinned tensors, copies in flight, and placeholders without data."""

import struct

import torch
from torch.utils._python_dispatch import _disable_current_modes

from simgpu import user_frame
from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.races.detector import RaceError

MISSING = struct.unpack("<d", struct.pack("<Q", 0x7FFD_5000_0000_0000))[0]  # a NaN
_is_pinned = torch.Tensor.is_pinned  # PyTorch's own
_SAMPLES = 64  # elements that show whether pinned memory has changed
_READS = 8  # copies from pinned memory that are checked, of those that no one has waited for


class HostCopy:
    """A copy to the host that is in flight: `target` has the `values` from `end` on."""

    __slots__ = ("end", "target", "values")

    def __init__(self, target, values, end):
        self.target, self.values, self.end = target, values, end
        with _disable_current_modes():  # `host_ops` must not charge this to the host
            poison(target)

    def fill(self):
        """Write the values into the target; autograd does not see it as a change."""
        with _disable_current_modes():
            self.target.copy_(self.values)

    def is_in(self, memory):
        """Whether it fills a part of the memory that a tensor is in."""
        return self.target.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr()


class HostRead:
    """A copy from pinned memory that the host has not waited for: until then it must not change.

    A few elements are compared, so that a copy stays cheap.
    """

    __slots__ = ("end", "first", "line", "name", "source")

    def __init__(self, source, name, end):
        self.source, self.name, self.end = source.detach(), name, end
        self.line, self.first = user_frame.line(), self._sample()

    def _sample(self):
        with _disable_current_modes():
            flat = self.source.view(-1)
            return flat[:: -(-flat.numel() // _SAMPLES)].clone()

    def fill(self):
        """Check that the memory is as it was when the copy was issued.

        Raises
        ------
        RaceError
            If it has changed.
        """
        now = self._sample()
        if not bool(((now == self.first) | (now != now)).all()):
            raise RaceError(
                f"race: the host has overwritten pinned memory that a non-blocking copy to "
                f"{self.name} ({self.line}) may still read. Wait for the copy before, by "
                "torch.accelerator.synchronize() or the synchronize() of an event that is recorded "
                "after it; or fill another buffer meanwhile"
            )

    def is_of(self, source):
        """Whether it reads the memory of a tensor, from its beginning."""
        return self.source.data_ptr() == source.data_ptr()


def arrived(device, data) -> torch.Tensor:
    """Return a host tensor as the next copy of the current stream finds it.

    Copies to the host that the stream has waited for are done by then, though the host may not read
    their results yet.
    """
    start = device.current_stream().end
    copies = [copy for copy in device.machine.pending if isinstance(copy, HostCopy)]
    copies = [copy for copy in copies if copy.end <= start and copy.is_in(data)]
    if not copies:
        return data
    with _disable_current_modes():
        storage = data.untyped_storage().clone()
        for copy in copies:
            _in_storage(copy.target, storage).copy_(copy.values)
        return _in_storage(data, storage)


def _in_storage(tensor, storage):
    """Return a tensor of the same form as another one, in a storage."""
    empty = torch.empty(0, dtype=tensor.dtype)
    return empty.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def note_read(machine, source, device, end) -> None:
    """Record that a copy to a device reads pinned memory until `end`.

    Raises
    ------
    RaceError
        If an earlier copy reads the same memory, the host has not waited for it, and the memory has
        changed since.
    """
    if not source.is_contiguous():
        return
    reads = [copy for copy in machine.pending if isinstance(copy, HostRead)]
    again = [copy for copy in reads if copy.is_of(source)]
    for copy in again:
        copy.fill()
    dropped = again or reads[: max(0, len(reads) - _READS)]
    machine.pending = [copy for copy in machine.pending if copy not in dropped]
    machine.pending.append(HostRead(source, device.name, end))


def is_missing(number) -> bool:
    """Whether a float stands for a missing value, or is what arithmetic made of one."""
    return number != number and _bits(number) == _bits(MISSING)


def _bits(number):
    """Return the significand of a float, in which a NaN has its kind."""
    return struct.unpack("<Q", struct.pack("<d", number))[0] & 2**52 - 1


def poison(tensor):
    """Fill a host tensor with a mark for missing values: NaN, True or an extreme integer."""
    if tensor.numel() == 0:
        return
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(MISSING)
    elif tensor.dtype is torch.bool:
        tensor.fill_(True)
    else:
        info = torch.iinfo(tensor.dtype)
        tensor.fill_(info.min if info.min < 0 else info.max)


def empty_pinned(*size, dtype=None) -> torch.Tensor:
    """Return an uninitialised host tensor in pinned (page-locked) memory.

    Non-blocking copies from and to it do not block the host. ``pin_memory=True`` needs a real GPU;
    this function does not: it returns pageable memory that the simulator treats as pinned. While
    the machine keeps shapes only, the tensor is one expanded element and takes no memory.

    Parameters
    ----------
    *size : int or tuple of int
        Shape.
    dtype : torch.dtype, optional
        Default: PyTorch's default dtype.

    Examples
    --------
    >>> import torch
    >>> import simgpu as sim
    >>> (device,) = sim.configure(1)
    >>> buffer = sim.empty_pinned(2)
    >>> buffer.copy_(torch.ones(2, device=device), non_blocking=True)
    tensor([nan, nan])
    >>> sim.synchronize()
    >>> buffer
    tensor([1., 1.])
    """
    tensor = torch.empty(*size, dtype=dtype, device="meta")
    if current.device_count() and not current.is_numeric():
        tensor = placeholder(tensor)
    else:
        tensor = torch.empty_like(tensor, device="cpu")
    mark_pinned(tensor)
    return tensor


def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a host tensor in pinned memory (the tensor itself if it is pinned)."""
    if isinstance(tensor, SimTensor):
        raise ValueError(
            f"cannot pin a tensor on {tensor._device.name}; only host tensors can be pinned"
        )
    if is_pinned(tensor):
        return tensor
    pinned = tensor.detach().clone()
    mark_pinned(pinned)
    return pinned


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether a host tensor is in memory that the simulator (or CUDA) has pinned."""
    if isinstance(tensor, SimTensor):
        return False
    return getattr(tensor.untyped_storage(), "_sim_pinned", False) or _is_pinned(tensor)


def mark_pinned(tensor):
    """Mark a host tensor's memory as pinned."""
    tensor.untyped_storage()._sim_pinned = True


def placeholder(data) -> torch.Tensor:
    """Return a host tensor of `data`'s shape and dtype without values (see `poison`).

    It is one expanded element, takes no memory, and is the result of a copy to the host on a
    machine that keeps shapes only.
    """
    one = torch.empty((), dtype=data.dtype, device="cpu")
    poison(one)
    return one.expand(data.shape)


def is_placeholder(tensor):
    """Whether a host tensor is one expanded element, as `placeholder` returns it."""
    return tensor.numel() > 1 and not any(tensor.stride())
