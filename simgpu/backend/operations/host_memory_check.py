"""Out-of-memory checks before the host allocates memory for a result and computes it."""

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from simgpu.backend.operations.layouts import as_on_cpu
from simgpu.clock.memory import rounded
from simgpu.kernels.facts import MAX_REMEMBERED, signature

_LARGEST_ELEMENT = 16  # bytes
_META = torch.device("meta")
_known: dict = {}  # bytes of the results of a call, by the shapes of its arguments


def check_result(op, device, tensors, args, kwargs) -> None:
    """Raise `torch.OutOfMemoryError` if the results of an operation do not fit on the device.

    Sizes are computed only if a bound does not fit: most results have at most as many elements as
    the product of two operands, times the integers among the arguments (``repeat``, ``pad``). A
    result that this misses is found after it was computed, when its block is allocated.
    """
    memory = device.memory
    elements = 0
    for tensor in tensors:
        elements += tensor.numel()
    bound = _LARGEST_ELEMENT * elements * (elements // 4 + 1)  # a * b <= (a + b)**2 / 4
    if not op.pointwise:  # integer arguments of pointwise operations are not sizes
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
    """Return the product of all integers among the arguments."""
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
    """Return the bytes of each result, or none if shapes do not determine them."""
    if op.syncs:
        return ()
    try:
        meta_args, meta_kwargs = tree_map_only(torch.Tensor, _to_meta, (list(args), dict(kwargs)))
        meta_args = [None if isinstance(a, torch.Generator) else a for a in meta_args]
        meta_kwargs.pop("generator", None)
        if "device" in meta_kwargs:
            meta_kwargs["device"] = _META
        inner = meta_args, meta_kwargs
        out = as_on_cpu(op, inner, op.func(*meta_args, **meta_kwargs))
    except (NotImplementedError, RuntimeError, ValueError, TypeError):
        return ()  # the CPU's kernel will raise the right error
    leaves = (leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))
    return tuple(leaf.untyped_storage().nbytes() for leaf in leaves)


def _to_meta(tensor):
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_META)


def explain(error, op, device):
    """Return `error`, or a clearer one if the host cannot compute the operation.

    It may have too little memory, or a library may have kernels for GPUs alone.
    """
    if isinstance(error, NotImplementedError) and not op.schema_name.startswith("aten::"):
        return NotImplementedError(
            f"{op.schema_name} has no implementation for the CPU, which computes the values on "
            "simulated GPUs; give it one (torch.library.register_kernel, 'cpu'), or keep shapes "
            "only (simgpu run --shapes-only, numerics=False), for which torch.library."
            "register_fake is enough"
        )
    if "DefaultCPUAllocator" not in str(error):
        return error
    return MemoryError(
        f"this computer has too little memory to compute {op.name} for {device.name} with values "
        f"({str(error).partition('DefaultCPUAllocator: ')[2].splitlines()[0]}); use smaller "
        "tensors, or configure the simulated machine with numerics=False to keep shapes only"
    )
