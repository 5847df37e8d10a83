"""The FLOPs of fused attention: those of its products, without what a causal mask skips."""

import torch

from simgpu.hardware.attention import FusedAttention

aten = torch.ops.aten

KERNELS = {
    f"_scaled_dot_product_{kernel}_attention{direction}": (kernel, bool(direction))
    for kernel in ("flash", "efficient", "cudnn")
    for direction in ("", "_backward")
}  # name of an operation: its kernel, and whether it is the backward pass


def arguments(func, args, kwargs) -> dict:
    """Return the arguments of a call of an operation by their names, with the defaults."""
    names = func._schema.arguments
    given = {a.name: a.default_value for a in names if a.has_default_value()}
    given.update((a.name, value) for a, value in zip(names, args, strict=False))
    return given | kwargs


def fused_work(func, args, kwargs) -> FusedAttention:
    """Return the work of one call of an operation in `KERNELS`.

    Forward: the products of queries and keys, and of weights and values. Backward: five products,
    since the scores are computed again (T. Dao et al., *FlashAttention*, 2022, algorithm 4).

    A causal mask leaves the area under the diagonal: half of the pairs, if there are as many keys
    as queries. If not, the diagonal ends with the last query and key in flash attention, and begins
    with the first ones in the other kernels. Every other mask is applied to all pairs.
    """
    kernel, backward = KERNELS[func.overloadpacket.__name__]
    given = arguments(func, args, kwargs)
    batch, heads, length, size = given["query"].shape
    keys, value_size = given["value"].shape[-2:]
    pairs = length * keys
    if given["is_causal"]:
        most = min(length, keys)
        before = (keys - most) * length if kernel == "flash" else (length - most) * keys
        pairs = most**2 / 2 + before
    products = 3 * size + 2 * value_size if backward else size + value_size
    return FusedAttention(kernel, int(2 * batch * heads * pairs * products))
