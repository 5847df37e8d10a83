"""Bytes on a simulated device: who holds them, the peak, and what happens when they run out.

The counts nearly agree with those of PyTorch's caching allocator for CUDA, which rounds up in the
same way. It counts more: cuBLAS workspaces (8 MiB, on Hopper 32 MiB, for every stream that
multiplies), rests of up to 1 MiB that it does not split off blocks above 1 MiB, and, in the peak,
the workspaces of convolutions.
"""

import gc
import weakref
from collections import deque

import torch

from simgpu.races import detector as races

GRANULE = 512  # bytes, to which every block is rounded up


class _Lease(weakref.ref):
    """What a device keeps of a block: its size, and when the block goes, a note of that.

    The note is made by C code alone (`deque.append`), which Ctrl-C cannot come in between as it
    can in a ``__del__``: Python would ignore it there, and the bytes would stay counted.
    """

    __slots__ = ("num_bytes",)


class Memory:
    """The memory of one device, counted in blocks of `GRANULE` bytes.

    What is modelled: every block is given back at once when its last tensor goes, and a block fits
    whenever the sum fits. Fragmentation, cached blocks and the context's own memory are not.

    Attributes
    ----------
    capacity, peak : int
        Bytes that there are, and the most that were in use at once.
    counted : int
        Bytes in use when that was last counted: at least as many as `allocated` now.

    An interrupt comes after calls and when loops go round; lines without either belong together.
    """

    __slots__ = (
        "_dropped", "_leases", "_next_address", "_note_drop", "capacity", "counted", "gpu_name",
        "index", "lock", "peak",
    )  # fmt: skip

    def __init__(self, index, gpu, lock):
        self.index = index
        self.gpu_name = gpu.name
        self.capacity = int(gpu.memory)
        self.lock = lock
        self.peak = 0
        self.counted = 0
        self._leases: set[_Lease] = set()
        self._dropped: deque[_Lease] = deque()
        self._note_drop = self._dropped.append
        self._next_address = (index + 1) << 44

    @property
    def allocated(self) -> int:
        """Bytes that blocks hold now."""
        if self._dropped:
            with self.lock:
                self._count_dropped()
        return self.counted

    def _count_dropped(self):
        dropped = self._dropped
        while dropped:
            lease = dropped[0]
            self.counted -= lease.num_bytes
            lease.num_bytes = 0
            self._leases.discard(lease)
            dropped.popleft()

    def check(self, num_bytes: int, beside: int = 0) -> None:
        """Raise the error that taking `num_bytes` more would raise, and change nothing.

        `beside` are bytes of blocks that will be taken before.
        """
        if self._is_short_of(beside + rounded(num_bytes)):
            raise torch.OutOfMemoryError(self._message(rounded(num_bytes)))

    def take(self, block: "Block", num_bytes: int) -> None:
        """Count `num_bytes` more for a block, which gets an (invented) address."""
        with self.lock:
            if self._dropped:
                self._count_dropped()
            if self.counted + num_bytes > self.capacity and self._is_short_of(num_bytes):
                raise torch.OutOfMemoryError(self._message(num_bytes))
            lease = block._lease
            if lease is None:
                lease = block._lease = _Lease(block, self._note_drop)
                lease.num_bytes = 0
                self._leases.add(lease)
            size = lease.num_bytes + num_bytes
            block.address = self._next_address  # a block that grows moves
            self._next_address += size
            self.counted = after = self.counted + num_bytes
            lease.num_bytes = size
            if after > self.peak:
                self.peak = after

    def give_back(self, block: "Block", num_bytes: int) -> None:
        """Count `num_bytes` less for a block, which stays where it is."""
        with self.lock:
            self.counted -= num_bytes
            block._lease.num_bytes -= num_bytes

    def _is_short_of(self, num_bytes):
        if self.allocated + num_bytes <= self.capacity:
            return False
        if not gc.isenabled():
            gc.collect()  # while ranks run, Python does not do that by itself
        return self.allocated + num_bytes > self.capacity

    def _message(self, num_bytes):
        held = self.counted
        free = self.capacity - held
        return (
            f"Simulated CUDA out of memory. Tried to allocate {_size(num_bytes)}. GPU {self.index} "
            f"({self.gpu_name}) has a total capacity of {_size(self.capacity)} of which "
            f"{_size(free)} is free. Of the allocated memory {_size(held)} is allocated "
            "by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
        )


class Block:
    """The memory behind one tensor and all views of it; freed when the last of them goes."""

    __slots__ = ("__weakref__", "_lease", "_sim_history", "address", "memory", "size")

    def __init__(self, device, num_bytes):
        self.size = num_bytes  # not rounded
        self._sim_history = None  # of its uses, while races are looked for
        self._lease = None
        self.memory = memory = device.memory
        memory.take(self, -(-num_bytes // GRANULE) * GRANULE)
        if races.active is not None:
            races.active.allocate(self, device)
            self.__class__ = _WatchedBlock

    @property
    def num_bytes(self) -> int:
        """Bytes that the block occupies."""
        return self._lease.num_bytes

    def resize(self, num_bytes):
        """Grow to hold `num_bytes` (never shrinks, as PyTorch's storages do not)."""
        extra = rounded(num_bytes) - self.num_bytes
        if extra > 0:
            self.memory.take(self, extra)
        self.size = max(self.size, num_bytes)

    def set_size(self, num_bytes):
        """Hold exactly `num_bytes`, fewer or more (``storage.resize_``)."""
        change = rounded(num_bytes) - self.num_bytes
        if change > 0:
            self.memory.take(self, change)
        else:
            self.memory.give_back(self, -change)
        self.size = num_bytes


class _WatchedBlock(Block):
    """A block that was taken while races are looked for: its end matters."""

    __slots__ = ()

    def __del__(self):
        self._sim_history.drop()


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
