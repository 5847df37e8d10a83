"""Describe the tensors of a call in error messages."""


def sizes(tensors) -> str:
    """Describe the number of elements and the dtype of tensors: ``4 float32``."""
    if not tensors:
        return "nothing"
    total = sum(tensor.numel() for tensor in tensors)
    count = f" in {len(tensors)} tensors" if len(tensors) > 1 else ""
    return f"{total} {dtype(tensors[0])}{count}"


def in_memory(tensors, others=()) -> str:
    """Describe tensors, and an unusual order in memory, which must be the same on all ranks."""
    odd = next((t for t in (*tensors, *others) if not t.is_contiguous()), None)
    return sizes(tensors) + ("" if odd is None else f" with strides {tuple(odd.stride())}")


def dtype(tensor) -> str:
    """Return the name of a tensor's dtype: ``float32``."""
    return str(tensor.dtype).removeprefix("torch.")
