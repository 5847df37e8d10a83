"""Describe the tensors and the reduction of a call in error messages."""

from simgpu.ranks.communication.checks import memory
from simgpu.ranks.process import torch_internals


def sizes(tensors) -> str:
    """Describe the number of elements and the dtype of tensors: ``4 float32``."""
    if not tensors:
        return "nothing"
    total = sum(tensor.numel() for tensor in tensors)
    count = f" in {len(tensors)} tensors" if len(tensors) > 1 else ""
    return f"{total} {dtype(tensors[0])}{count}"


def in_memory(tensors, others=()) -> str:
    """Describe tensors, and an unusual order in memory, which must be the same on all ranks."""
    return sizes(tensors) + memory.strides([*tensors, *others])


def dtype(tensor) -> str:
    """Return the name of a tensor's dtype: ``float32``."""
    return str(tensor.dtype).removeprefix("torch.")


def op_name(op) -> str:
    """Return the name of a reduction: ``sum``."""
    return str(torch_internals.kind_of_reduction(op)).rpartition(".")[2].lower()
