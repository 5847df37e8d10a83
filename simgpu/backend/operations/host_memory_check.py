"""Whether a result will fit, found before the host takes memory for it and computes it."""

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from simgpu.backend.operations.layouts import as_on_cpu
from simgpu.backend.ops import MAX_REMEMBERED, signature
from simgpu.clock.memory import rounded

_LARGEST_ELEMENT = 16  # bytes
_META = torch.device("meta")
_known: dict = {}  # bytes of the results of a call, by the shapes that go into it


def check_result(op, device, tensors, args, kwargs) -> None:
    """Raise `torch.OutOfMemoryError` if the results of an operation do not fit on the device.

    Asked only where they may not: most operations make no more than the product of two operands
    and of the whole numbers among the arguments (``repeat``, ``pad``). What this misses is found
    after it was computed, when its block is taken.
    """
    memory = device.memory
    elements = 0
    for tensor in tensors:
        elements += tensor.numel()
    bound = _LARGEST_ELEMENT * elements * (elements // 4 + 1)  # a * b <= (a + b)**2 / 4
    if not op.pointwise:  # their numbers are no sizes
        bound *= _product(args)
    if bound <= memory.capacity - memory.counted:
        return
    key = op.func, signature(args), tuple(kwargs), signature(kwargs.values())
    sizes = _known.get(key)
    if sizes is None:
        if len(_known) >= MAX_REMEMBERED:
            _known.clear()
        sizes = _known[key] = _sizes(op, args, kwargs)
    before = 0
    for size in sizes:
        memory.check(size, before)
        before += rounded(size)


def _product(args):
    """Return the product of all whole numbers among the arguments."""
    product = 1
    for argument in args:
        kind = type(argument)
        if kind is int:
            product *= max(argument, 1)
        elif kind is list or kind is tuple:
            for number in argument:
                if type(number) is int:
                    product *= max(number, 1)
    return product


def _sizes(op, args, kwargs):
    """Bytes of the results, or none where the shapes do not tell."""
    if op.syncs:
        return ()
    try:
        meta_args, meta_kwargs = tree_map_only(torch.Tensor, _twin, (list(args), dict(kwargs)))
        meta_args = [None if isinstance(a, torch.Generator) else a for a in meta_args]
        meta_kwargs.pop("generator", None)
        if "device" in meta_kwargs:
            meta_kwargs["device"] = _META
        inner = meta_args, meta_kwargs
        out = as_on_cpu(op, inner, op.func(*meta_args, **meta_kwargs))
    except (NotImplementedError, RuntimeError, ValueError, TypeError):
        return ()  # the CPU's kernel says what is wrong
    leaves = (leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))
    return tuple(leaf.untyped_storage().nbytes() for leaf in leaves)


def _twin(tensor):
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_META)


def explain(error, name, device):
    """Return `error`, or one that says it where the host itself lacks the memory."""
    if "DefaultCPUAllocator" not in str(error):
        return error
    return MemoryError(
        f"this computer lacks the memory to compute {name} for {device.name} with real numbers "
        f"({str(error).partition('DefaultCPUAllocator: ')[2].splitlines()[0]}); use smaller "
        "tensors, or configure the simulated machine with numerics=False: it keeps shapes only"
    )
