"""How many tensors and elements a call needs."""

import torch

from simgpu.ranks.communication.checks.refusal import count, refuse


def check_list(rank, call, what, tensors, size) -> None:
    """Check that a list has one tensor for each rank of the group."""
    if len(tensors) != size:
        refuse(
            rank, call, f"gets {count(len(tensors), what)} for {count(size, 'rank')}",
            "give one for each rank of the group",
        )  # fmt: skip


def check_gathered(rank, call, part, whole, size, whole_is) -> None:
    """Check that a tensor for all ranks has `size` times the elements of one rank's."""
    if whole.numel() != size * part.numel():
        part_is = "input" if whole_is == "output" else "output"
        refuse(
            rank, call,
            f"gets an {part_is} of {count(part.numel(), 'element')} and an {whole_is} of "
            f"{whole.numel()} for {count(size, 'rank')}",
            f"the {whole_is} must have {size * part.numel()}",
        )  # fmt: skip


def check_slot(rank, call, one, slot, one_is, slot_is) -> None:
    """Check that a rank's own tensor has as many elements as its entry in a list."""
    if one.numel() != slot.numel():
        refuse(
            rank, call,
            f"gets an {one_is} of {count(one.numel(), 'element')}, but an {slot_is} for this rank "
            f"of {slot.numel()}",
            "give both the same size",
        )  # fmt: skip


def check_shapes(rank, call, one, many) -> None:
    """Check that tensors have the shape of a rank's own."""
    for tensor in many:
        if tensor.shape != one.shape:
            refuse(
                rank, call,
                f"gets tensors of shapes {tuple(one.shape)} and {tuple(tensor.shape)}",
                "give all the same shape",
            )  # fmt: skip


NO_VALUE = torch.iinfo(torch.int64).min  # what a copy to the host has in place of an integer


def split(rank, call, tensor, sizes, what, size) -> list:
    """Return the parts of a tensor for each rank, of equal size or of `sizes` rows."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if tensor.numel() % size:
            refuse(
                rank, call,
                f"gets an {what} of {count(tensor.numel(), 'element')}, which {size} ranks cannot "
                "share equally",
                f"give {what}_split_sizes, or pad it",
            )  # fmt: skip
        if rows % size or not tensor.dim():
            tensor = tensor.reshape(-1)
            rows = tensor.shape[0]
        sizes = [rows // size] * size
    if min(sizes) == NO_VALUE:
        refuse(
            rank, call,
            f"gets {what}_split_sizes without values, as this run keeps shapes only",
            "compute them from the indices of topk, which have values there (routing), or run with "
            "values",
        )  # fmt: skip
    if len(sizes) != size or sum(sizes) != rows or min(sizes) < 0:
        refuse(
            rank, call,
            f"gets {what}_split_sizes {list(sizes)}, with sum {sum(sizes)}, for an {what} of "
            f"{count(rows, 'row')} and {count(size, 'rank')}",
            f"give {size} sizes with sum {rows}",
        )  # fmt: skip
    return list(tensor.split(list(sizes)))
