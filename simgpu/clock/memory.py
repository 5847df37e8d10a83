"""The memory of a simulated device: allocated bytes, their peak, and the out-of-memory error.

The counts nearly agree with those of PyTorch's caching allocator for CUDA, which rounds up in the
same way, and reserves segments as `simgpu.clock.segments` does. The allocator also counts cuBLAS
workspaces (8 MiB, on Hopper 32 MiB, for every stream that multiplies matrices), remainders of up to
1 MiB that it does not split off from blocks above 1 MiB, and, in the peak, the workspaces of
convolutions.
"""

import gc
import weakref
from collections import deque

import torch

from simgpu.clock.segments import Segments
from simgpu.races import detector as races

GRANULE = 512  # bytes, to which every block is rounded up


class _Allocation(weakref.ref):
    """A device's record of a block: size, piece of a segment, and a callback for when it is freed.

    The callback is C code alone (`deque.append`), which Ctrl-C cannot interrupt. It could interrupt
    a ``__del__``, where Python ignores the exception: the bytes would stay counted.
    """

    __slots__ = ("num_bytes", "piece")


class Memory:
    """The memory of one device, counted in blocks of `GRANULE` bytes.

    In this model a block is freed as soon as its last tensor is, whatever stream still uses it. The
    memory of the CUDA context and of NCCL is not modelled.

    Attributes
    ----------
    capacity, peak : int
        Bytes of the device, and the most that were in use at once.
    base : int
        Its first address.
    counted : int
        Bytes in use at the last count: at least as many as `allocated` now.
    segments : Segments
        What PyTorch's caching allocator would reserve for these blocks.
    watchers : tuple of callable
        Each is told of every piece of a segment that is taken, and given back: of its address, and
        its bytes, negative if they are given back. What is freed is noticed when something is
        allocated, or when memory is asked for.

    Interrupts come only after calls and between iterations; lines with neither are atomic.
    """

    __slots__ = (
        "_allocations", "_before", "_freed", "_next_address", "_note_freed", "base", "capacity",
        "counted", "gpu_name", "index", "lock", "peak", "segments", "watchers",
    )  # fmt: skip

    def __init__(self, index, gpu, lock):
        self.index = index
        self.gpu_name = gpu.name
        self.capacity = int(gpu.memory)
        self.lock = lock
        self.peak = 0
        self._before = 0, 0  # the highest peaks before a reset
        self.counted = 0
        self._allocations: set[_Allocation] = set()
        self._freed: deque[_Allocation] = deque()
        self._note_freed = self._freed.append
        self.base = self._next_address = (index + 1) << 44
        self.segments = Segments()
        self.watchers = ()

    @property
    def allocated(self) -> int:
        """Bytes that blocks occupy now."""
        if self._freed:
            with self.lock:
                self._subtract_freed()
        return self.counted

    @property
    def highest(self) -> tuple[int, int]:
        """The peaks of allocated and of reserved bytes, whatever a program has reset."""
        return max(self._before[0], self.peak), max(self._before[1], self.segments.peak)

    def reset_peak(self) -> None:
        """Reset the peaks to what is in use now."""
        self._before = self.highest
        self.peak = self.allocated
        self.segments.peak = self.segments.reserved

    def forget_peak(self) -> None:
        """Reset the peaks, and begin `highest` anew."""
        self.reset_peak()
        self._before = 0, 0

    def empty_cache(self) -> None:
        """Give the segments in which nothing is used back to the device."""
        with self.lock:
            self._subtract_freed()
            self._change()
            self.segments.release()
            self.segments.changing = False

    def _subtract_freed(self):
        freed = self._freed
        while freed:
            allocation = freed[0]
            num_bytes, piece = allocation.num_bytes, allocation.piece
            self.counted -= num_bytes
            allocation.num_bytes = 0
            if piece is not None:
                self._change()
                allocation.piece = None
                self.segments.free(piece)
                self.segments.changing = False
            self._allocations.discard(allocation)
            freed.popleft()
            if self.watchers:
                self._tell(piece, -num_bytes)

    def check(self, num_bytes: int, before: int = 0) -> None:
        """Raise the error that allocating `num_bytes` would raise, without allocating them.

        `before` is the size of the blocks that will be allocated before this one.
        """
        if self._is_short_of(before + rounded(num_bytes)):
            self.empty_cache()  # as the allocator does before it gives up
            raise torch.OutOfMemoryError(self._message(rounded(num_bytes)))

    def take(self, block: "Block", num_bytes: int) -> None:
        """Count `num_bytes` more for a block, which gets a new (synthetic) address."""
        with self.lock:
            if self._freed:
                self._subtract_freed()
            allocation = block._allocation
            if allocation is None:
                allocation = _Allocation(block, self._note_freed)
                allocation.num_bytes, allocation.piece = 0, None
            before = allocation.num_bytes
            size = before + num_bytes
            last = self._move(allocation, size)
            block._allocation = allocation
            self._allocations.add(allocation)
            block.address = self._next_address  # a block that grows moves
            self._next_address += size
            self.counted = after = self.counted + num_bytes
            allocation.num_bytes = size
            if after > self.peak:
                self.peak = after
            if self.watchers:
                self._tell(last, -before)
                self._tell(allocation.piece, size)

    def place(self, block: "Block", num_bytes: int) -> None:
        """Give a new block an address of its own, and no memory until `take` is called."""
        allocation = block._allocation = _Allocation(block, self._note_freed)
        allocation.num_bytes, allocation.piece = 0, None
        self._allocations.add(allocation)
        block.address = self._next_address
        self._next_address += num_bytes

    def give_back(self, block: "Block", num_bytes: int) -> None:
        """Count `num_bytes` less for a block, which keeps its address."""
        with self.lock:
            allocation = block._allocation
            before = allocation.num_bytes
            self.counted -= num_bytes
            allocation.num_bytes -= num_bytes
            last = self._move(allocation, allocation.num_bytes)
            if self.watchers:
                self._tell(last, -before)
                self._tell(allocation.piece, allocation.num_bytes)

    def _move(self, allocation, size):
        """Give a block another piece of `size` bytes; return the last one."""
        self._change()
        piece = None
        if size:
            piece = self.segments.allocate(size, self.capacity)
            if piece is None and not gc.isenabled():
                gc.collect()  # automatic collection is off while ranks run
                self._subtract_freed()
                self._change()
                piece = self.segments.allocate(size, self.capacity)
            if piece is None:
                self.segments.changing = False
                raise torch.OutOfMemoryError(self._message(size))
        last, allocation.piece = allocation.piece, piece
        if last is not None:
            self.segments.free(last)
        self.segments.changing = False
        return last

    def _tell(self, piece, num_bytes):
        """Tell the watchers; behind all changes, since an interrupt may come as a call begins."""
        for watcher in self.watchers if piece is not None else ():
            watcher(self.base + piece.address, num_bytes)

    def _change(self):
        """Begin a change of the segments; mend them if the last one was interrupted."""
        if self.segments.changing:
            self.segments.mend(a.piece for a in self._allocations if a.piece is not None)
        self.segments.changing = True

    def _is_short_of(self, num_bytes):
        if self.allocated + num_bytes <= self.capacity:
            return False
        if not gc.isenabled():
            gc.collect()  # automatic collection is off while ranks run
        return self.allocated + num_bytes > self.capacity

    def _message(self, num_bytes):
        held = self.counted
        free = self.capacity - self.segments.reserved
        return (
            f"Simulated CUDA out of memory. Tried to allocate {_size(num_bytes)}. GPU {self.index} "
            f"({self.gpu_name}) has a total capacity of {_size(self.capacity)} of which "
            f"{_size(free)} is free. Of the allocated memory {_size(held)} is allocated "
            f"by PyTorch, and {_size(self.segments.reserved - held)} is reserved by PyTorch but "
            "unallocated."
        )


class Block:
    """The memory that a tensor and all its views share; freed with the last of them."""

    __slots__ = (
        "__weakref__", "_allocation", "_sim_history", "address", "equal", "memory", "size",
        "unwritten",
    )  # fmt: skip

    def __init__(self, device, num_bytes):
        self.size = num_bytes  # not rounded
        self.equal = None  # the number that all of it holds, where that alone is known of values
        self.unwritten = None  # what made it, until anything is written to it, if that is watched
        self._sim_history = None  # of its accesses, while `check_races` is active
        self._allocation = None
        self.memory = memory = device.memory
        memory.take(self, -(-num_bytes // GRANULE) * GRANULE)
        if races.active is not None:
            races.active.allocate(self, device)
            self.__class__ = _WatchedBlock

    @property
    def num_bytes(self) -> int:
        """Bytes that the block occupies."""
        return self._allocation.num_bytes

    def resize(self, num_bytes):
        """Grow to hold `num_bytes`; like PyTorch's storages, never shrink."""
        extra = rounded(num_bytes) - rounded(self.size)
        if extra > 0:
            self.memory.take(self, extra)
        self.size = max(self.size, num_bytes)

    def set_size(self, num_bytes):
        """Grow or shrink to exactly `num_bytes` (``storage.resize_``)."""
        change = rounded(num_bytes) - self.num_bytes
        if change > 0:
            self.memory.take(self, change)
        else:
            self.memory.give_back(self, -change)
        self.size = num_bytes


class _WatchedBlock(Block):
    """A block allocated while `check_races` is active: the detector must know when it is freed."""

    __slots__ = ()

    def __del__(self):
        self._sim_history.mark_freed()


def rounded(num_bytes: int) -> int:
    """Return the bytes that a block of `num_bytes` occupies."""
    return -(-num_bytes // GRANULE) * GRANULE


def _size(num_bytes):
    if num_bytes >= 2**30:
        return f"{num_bytes / 2**30:.2f} GiB"
    if num_bytes >= 2**20:
        return f"{num_bytes / 2**20:.2f} MiB"
    if num_bytes >= 2**10:
        return f"{num_bytes / 2**10:.2f} KiB"
    return f"{num_bytes} bytes"
