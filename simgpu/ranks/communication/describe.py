"""How messages name the tensors and the reductions of a call."""

from simgpu.ranks.process import torch_internals


def sizes(tensors) -> str:
    """Say how many elements of which type the tensors have."""
    if not tensors:
        return "nothing"
    total = sum(tensor.numel() for tensor in tensors)
    count = f" in {len(tensors)} tensors" if len(tensors) > 1 else ""
    return f"{total} {dtype(tensors[0])}{count}"


def dtype(tensor) -> str:
    """Name the type of a tensor."""
    return str(tensor.dtype).removeprefix("torch.")


def op_name(op) -> str:
    """Name a reduction: ``sum``."""
    return str(torch_internals.kind_of_reduction(op)).rpartition(".")[2].lower()
