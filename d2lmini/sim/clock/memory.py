"""Bytes on a simulated device: who holds them, the peak, and what happens when they run out.

The counts nearly agree with those of PyTorch's caching allocator for CUDA, which rounds up in the
same way. It counts more: cuBLAS workspaces (8 MiB, on Hopper 32 MiB, for every stream that
multiplies), rests of up to 1 MiB that it does not split off blocks above 1 MiB, and, in the peak,
the workspaces of convolutions.
"""

import torch

from d2lmini.sim.races import detector as races

GRANULE = 512  # bytes, to which every block is rounded up


class Memory:
    """The memory of one device, counted in blocks of `GRANULE` bytes.

    What is modelled: every block is given back at once when its last tensor goes, and a block fits
    whenever the sum fits. Fragmentation, cached blocks and the context's own memory are not.
    """

    __slots__ = ("_next_address", "allocated", "capacity", "gpu_name", "index", "lock", "peak")

    def __init__(self, index, gpu, lock):
        self.index = index
        self.gpu_name = gpu.name
        self.capacity = int(gpu.memory)
        self.lock = lock
        self.allocated = 0
        self.peak = 0
        self._next_address = (index + 1) << 44

    def check(self, num_bytes: int) -> None:
        """Raise the error that taking `num_bytes` more would raise, and change nothing."""
        if self.allocated + _rounded(num_bytes) > self.capacity:
            raise torch.OutOfMemoryError(self._message(_rounded(num_bytes)))

    def take(self, num_bytes: int) -> int:
        """Count a new block of rounded size; return its (invented) address."""
        with self.lock:
            if self.allocated + num_bytes > self.capacity:
                raise torch.OutOfMemoryError(self._message(num_bytes))
            self.allocated += num_bytes
            if self.allocated > self.peak:
                self.peak = self.allocated
            address = self._next_address
            self._next_address += num_bytes
            return address

    def _message(self, num_bytes):
        free = self.capacity - self.allocated
        return (
            f"Simulated CUDA out of memory. Tried to allocate {_size(num_bytes)}. GPU {self.index} "
            f"({self.gpu_name}) has a total capacity of {_size(self.capacity)} of which "
            f"{_size(free)} is free. Of the allocated memory {_size(self.allocated)} is allocated "
            "by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
        )


class Block:
    """The memory behind one tensor and all views of it; freed when the last of them goes."""

    __slots__ = ("_sim_history", "address", "memory", "num_bytes", "size")

    def __init__(self, device, num_bytes):
        rounded = _rounded(num_bytes)
        self.size = num_bytes  # not rounded
        self.num_bytes = 0  # in case `take` raises
        self._sim_history = None  # of its uses, while races are looked for
        self.memory = device.memory
        self.address = self.memory.take(rounded)
        self.num_bytes = rounded
        if races.active is not None:
            races.active.allocate(self, device)

    def resize(self, num_bytes):
        """Grow to hold `num_bytes` (never shrinks, as PyTorch's storages do not)."""
        extra = _rounded(num_bytes) - self.num_bytes
        if extra > 0:
            self.memory.take(extra)
            self.num_bytes += extra
        self.size = max(self.size, num_bytes)

    def set_size(self, num_bytes):
        """Hold exactly `num_bytes`, fewer or more (``storage.resize_``)."""
        rounded = _rounded(num_bytes)
        if rounded > self.num_bytes:
            self.memory.take(rounded - self.num_bytes)
        else:
            with self.memory.lock:
                self.memory.allocated -= self.num_bytes - rounded
        self.num_bytes, self.size = rounded, num_bytes

    def __del__(self):
        if self.num_bytes:
            with self.memory.lock:
                self.memory.allocated -= self.num_bytes
            if self._sim_history is not None:
                self._sim_history.drop()


def _rounded(num_bytes):
    return -(-num_bytes // GRANULE) * GRANULE


def _size(num_bytes):
    if num_bytes >= 2**30:
        return f"{num_bytes / 2**30:.2f} GiB"
    if num_bytes >= 2**20:
        return f"{num_bytes / 2**20:.2f} MiB"
    if num_bytes >= 2**10:
        return f"{num_bytes / 2**10:.2f} KiB"
    return f"{num_bytes} bytes"
