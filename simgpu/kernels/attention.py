"""The FLOPs of attention: those of its products, without what a causal mask skips.

``table.py`` says which operation has which.
"""

from simgpu.hardware.attention import FusedAttention


def arguments(func, args, kwargs) -> dict:
    """Return the arguments of a call of an operation by their names, with the defaults."""
    names = func._schema.arguments
    given = {a.name: a.default_value for a in names if a.has_default_value()}
    given.update((a.name, value) for a, value in zip(names, args, strict=False))
    return given | kwargs


def fused(kernel, backward, func, args, kwargs) -> FusedAttention:
    """Return the work of one call of a fused kernel: ``"flash"``, ``"efficient"`` or ``"cudnn"``.

    Forward: the products of queries and keys, and of weights and values. Backward: five products,
    since the scores are computed again (T. Dao et al., *FlashAttention*, 2022, algorithm 4).

    A causal mask leaves the area under the diagonal: half of the pairs, if there are as many keys
    as queries. If not, the diagonal ends with the last query and key in flash attention, and begins
    with the first ones in the other kernels. Every other mask is applied to all pairs.
    """
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


def layer_flops(query, key, value, embed_dim, *_, out_val=None, **__):
    """Return the FLOPs of four projections and, per sequence, two length x length products.

    Of `torch._native_multi_head_attention`, which fuses it for inference.
    """
    batch, length = query.shape[:2]
    return 8 * batch * length * embed_dim**2 + 4 * batch * length**2 * embed_dim


def encoder_layer_flops(src, embed_dim, *rest, out_val=None, **_):
    """Return the FLOPs of attention and of the two products of the feed-forward part."""
    hidden = rest[12].shape[0]  # of ffn_weight_1
    feed_forward = 4 * src.shape[0] * src.shape[1] * embed_dim * hidden
    return layer_flops(src, src, src, embed_dim) + feed_forward
