"""What the CUDA graph of a region reads: it finds its inputs where they were when it was captured.

PyTorch copies an input there before each replay (`torch._inductor.cudagraph_trees`), unless it is
a parameter or what another graph has made, which stay where they are.
"""

import weakref

import torch

from simgpu.clock.memory import Block

COPY = "_foreach_copy_"
_made = weakref.WeakSet()  # blocks that graphs have written


class GraphInputs:
    """The inputs that a tape copies for its graphs.

    Parameters
    ----------
    buffers : dict
        Of the region: for each plan, the block where its inputs are copied to.
    """

    def __init__(self, buffers):
        self._buffers = buffers
        self._given = {}  # address of a block -> bytes of each tensor in it

    def give(self, tensors) -> None:
        """Note tensors that are given from outside the region."""
        for t in tensors:
            if not isinstance(t, torch.nn.Parameter) and t._block not in _made:
                place = t._data.storage_offset(), t.shape, t._data.stride()
                views = self._given.setdefault(t._block.address, {})
                views[place] = min(t._data.nbytes, t._block.size)

    def take(self, addresses) -> int:
        """Return the bytes of what is given and lies at some addresses; it is copied once."""
        return sum(sum(self._given.pop(address, {}).values()) for address in addresses)

    def copy(self, num_bytes, plan, device, sink) -> None:
        """Copy inputs to where the graph of a plan reads them; the first time, allocate that."""
        if num_bytes:
            if plan not in self._buffers:
                self._buffers[plan] = Block(device, num_bytes)
            sink.launch(COPY, 0, 2 * num_bytes)

    @staticmethod
    def made(blocks) -> None:
        """Note what a graph has written: other graphs read it where it is."""
        _made.update(blocks)
