"""The parts into which FSDP2 cuts a parameter: those that a rank uses.

PyTorch makes the parts of all ranks, each of which looks at two; on thousands of ranks this takes
longer than the step.
"""

from simgpu.backend.pytorch.replacements import exists

CHUNK = "torch.distributed.fsdp._fully_shard._fsdp_param:_chunk_with_empty"


def replacements() -> dict:
    """Return the replacements; none if PyTorch has other names."""
    return {CHUNK: Chunks} if exists(CHUNK) else {}


class Chunks:
    """What `torch.chunk` returns, and empty tensors for ranks that get nothing, made when used.

    Parameters
    ----------
    tensor : torch.Tensor
    num_chunks : int
    dim : int
    """

    def __init__(self, tensor, num_chunks, dim):
        self._tensor, self._num_chunks, self._dim = tensor, num_chunks, dim

    def __len__(self):
        return self._num_chunks

    def __getitem__(self, index):
        if not 0 <= index < self._num_chunks:
            raise IndexError(f"chunk {index} of {self._num_chunks}")
        size = self._tensor.size(self._dim)
        each = -(-size // self._num_chunks)
        if index * each >= size > 0:
            return self._tensor.new_empty(0)
        return self._tensor.narrow(self._dim, index * each, min(each, size - index * each))
