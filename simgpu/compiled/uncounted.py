"""Memory that is not counted, or not yet: blocks have addresses, and take no bytes."""

import math
import weakref

from simgpu.clock.memory import rounded


class UncountedMemory:
    """Stands for the memory of a device; new blocks take none.

    Parameters
    ----------
    memory : Memory or UncountedMemory
        That of the device until now.

    Attributes
    ----------
    counting : Memory
        The memory in which blocks are counted later.
    """

    capacity, counted = math.inf, 0

    def __init__(self, memory):
        self.counting = memory.counting if isinstance(memory, UncountedMemory) else memory

    def take(self, block, num_bytes):
        """Give a new block an address, and no memory."""
        block.memory = self.counting
        self.counting.place(block, num_bytes)

    def check(self, num_bytes, before=0):
        """Refuse nothing."""

    def __getattr__(self, name):
        return getattr(self.counting, name)


class PendingMemory(UncountedMemory):
    """The memory of a device while a tape records: what a plan writes is counted with its kernels.

    What reads it settles the tape first.
    """

    def __init__(self, tape, memory):
        super().__init__(memory)
        self._tape = tape
        self._made = []  # weak references to blocks

    def take(self, block, num_bytes):
        """Give a new block an address, and no memory unless the tape has ended."""
        if self._tape.ends_if_over():
            block.memory = self.counting
            self.counting.take(block, num_bytes)
        else:
            super().take(block, num_bytes)
            self._made.append(weakref.ref(block))

    def settle(self, known):
        """Count new blocks, apart from those at `known` addresses, which a plan counts."""
        made, self._made = self._made, []
        for block in [reference() for reference in made]:
            if block is not None and block.address not in known and not block.num_bytes:
                self.counting.take(block, rounded(block.size))

    def __getattr__(self, name):
        self._tape.settle()
        return getattr(self.counting, name)
