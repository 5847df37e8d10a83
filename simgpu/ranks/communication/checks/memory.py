"""How tensors have to lie in memory: NCCL gets an address and a number of elements, no strides."""

import torch

from simgpu.races.regions import overlap, region
from simgpu.ranks.communication.checks.refusal import refuse

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def check_layout(rank, call, tensors, wanted) -> None:
    """Check that the elements of tensors lie in memory as a call needs them.

    Parameters
    ----------
    wanted : callable
        Whether a tensor lies as it should: `is_contiguous`, `is_plain` or `is_dense`.
    """
    for tensor in tensors:
        if not tensor.is_contiguous() and not wanted(tensor):
            refuse(
                rank, call,
                f"gets a tensor of shape {tuple(tensor.shape)} with strides {tensor.stride()}, "
                "which is not contiguous; NCCL sends memory as it lies",
                "send x.contiguous(), and copy a result back",
            )  # fmt: skip


def is_contiguous(tensor) -> bool:
    """Return whether NCCL takes a tensor for a collective: contiguous, or with channels last."""
    layout = _CHANNELS_LAST.get(tensor.dim())
    return tensor.is_contiguous() or (
        layout is not None and tensor.is_contiguous(memory_format=layout)
    )


def is_plain(tensor) -> bool:
    """Return whether a tensor is contiguous in the order of its dimensions."""
    return tensor.is_contiguous()


def is_dense(tensor) -> bool:
    """Return whether a tensor has no gaps and no element twice, in any order of its dimensions."""
    if tensor.is_contiguous():
        return True
    return _region(tensor)[1] == ((1, tensor.nbytes - 1),) and 0 not in tensor.stride()


def check_formats(rank, call, inputs, outputs) -> None:
    """Check that input and output have the same order in memory, such as channels last."""
    one, other = inputs[0], outputs[0]
    if one.is_contiguous() != other.is_contiguous():
        refuse(
            rank, call,
            f"gets an input with strides {one.stride()} and an output with strides "
            f"{other.stride()}; NCCL copies memory as it lies",
            "give both the same memory format",
        )  # fmt: skip


def check_aliases(rank, call, inputs, outputs, own=None) -> None:
    """Check that no output shares memory with another output or with an input.

    NCCL reads and writes at the same time; it works in place only where a rank's own part of input
    and output, number `own` of a list, are the same piece of memory.
    """
    blocks = {id(tensor._block) for tensor in (*inputs, *outputs)}
    if len(blocks) == len(inputs) + len(outputs):
        return
    if own is not None and inputs:
        one, other = (tensors[own if len(tensors) > 1 else 0] for tensors in (inputs, outputs))
        if _place(one) == _place(other) and one.stride() == other.stride():
            inputs = [tensor for tensor in inputs if tensor is not one]
    places = [(*_place(x), is_out, i) for is_out, xs in ((False, inputs), (True, outputs))
              for i, x in enumerate(xs) if x.numel()]  # fmt: skip
    _check_apart(rank, call, sorted(places), (inputs, outputs))


def check_aliases_of_parts(rank, call, part, whole, own) -> None:
    """Do the same for one rank's tensor and the tensor of all ranks, which may contain it."""
    if part._block is not whole._block:
        return
    (_, start, end), (_, first, last) = _place(part), _place(whole)
    if start != first + own * (end - start) and start < last and first < end:
        _refuse_alias(
            rank, call, f"an input and an output that share memory, but not as part {own} of it"
        )


def _check_apart(rank, call, places, tensors):
    """Check places in memory, sorted, each with whether it is of an output, and its index."""
    reach = {False: None, True: None}  # the place that ends last so far: of inputs, of outputs
    for place in places:
        block, start, end, is_out, i = place
        for other_is_out in (False, True) if is_out else (True,):
            other = reach[other_is_out]
            if other is None or other[0] != block or other[2] <= start:
                continue
            if overlap(_region(tensors[is_out][i]), _region(tensors[other_is_out][other[4]])):
                which = "two outputs" if is_out and other_is_out else "an input and an output"
                _refuse_alias(rank, call, f"{which} that share memory")
        last = reach[is_out]
        if last is None or last[0] != block or last[2] <= end:
            reach[is_out] = place


def _refuse_alias(rank, call, what):
    refuse(
        rank, call, f"gets {what}; NCCL reads and writes at the same time, so values would be lost",
        "give each a tensor of its own",
    )  # fmt: skip


def _place(tensor):
    """Return the block of a tensor, its first byte, and the one after its last."""
    start = tensor.storage_offset() * tensor.itemsize
    if tensor.is_contiguous():
        return id(tensor._block), start, start + tensor.nbytes
    return id(tensor._block), start, start + 1 + sum(s * n for s, n in _region(tensor)[1])


def _region(tensor):
    return region(tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.itemsize)
