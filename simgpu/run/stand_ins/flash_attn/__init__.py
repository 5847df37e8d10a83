"""A stand-in for the package flash-attn: its functions by PyTorch's own attention.

`simgpu run` finds it where the real package is not installed. Tensors are of shape (batch, length,
heads, size of a head), keys may have fewer heads, and the mask of ``causal`` is aligned to the
last query and the last key. With as many queries as keys it costs what PyTorch's flash attention
does; other masks cost what PyTorch's attention with a mask does, which is more.
"""

import os
import sys
from itertools import pairwise

import torch
from torch.nn.functional import scaled_dot_product_attention

__version__ = "2.8.3"
_NO_WINDOW = (-1, -1)

if os.environ.get("RANK", "0") == "0":
    print("simgpu run: note: flash_attn is PyTorch's own attention here", file=sys.stderr)


def flash_attn_func(
    q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=_NO_WINDOW,
    softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False,
):  # fmt: skip
    """Return the attention of queries to keys and values, of the shape of `q`.

    Raises
    ------
    NotImplementedError
        For `softcap`, `alibi_slopes` and `return_attn_probs`, and for queries that see no key.
    """
    for name, value in (("softcap", softcap), ("alibi_slopes", alibi_slopes),
                        ("return_attn_probs", return_attn_probs)):  # fmt: skip
        if value is not None and value:
            raise NotImplementedError(
                f"flash_attn_func({name}={value!r}): simgpu's stand-in for flash_attn lacks it; "
                "use torch.nn.attention.flex_attention"
            )
    return scaled_dot_product_attention(
        *(x.transpose(1, 2) for x in (q, k, v)), dropout_p=dropout_p, scale=softmax_scale,
        enable_gqa=q.shape[2] != k.shape[2], **_masking(q, k, causal, tuple(window_size)),
    ).transpose(1, 2)  # fmt: skip


def flash_attn_qkvpacked_func(qkv, *args, **kwargs):
    """Do the same for queries, keys and values in one tensor, (batch, length, 3, heads, size)."""
    return flash_attn_func(*qkv.unbind(2), *args, **kwargs)


def flash_attn_kvpacked_func(q, kv, *args, **kwargs):
    """Do the same for keys and values in one tensor, (batch, length, 2, heads, size)."""
    return flash_attn_func(q, *kv.unbind(2), *args, **kwargs)


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
    softmax_scale=None, causal=False, window_size=_NO_WINDOW, **options,
):  # fmt: skip
    """Do the same for sequences one after the other, (tokens, heads, size), by where each begins.

    It costs a kernel for each sequence, where the real one has one for all.
    """
    parts = []
    begins = zip(pairwise(_numbers(cu_seqlens_q)), pairwise(_numbers(cu_seqlens_k)), strict=True)
    for (first, end), (first_key, end_key) in begins:
        if end > first:
            sequence = q[first:end], k[first_key:end_key], v[first_key:end_key]
            parts.append(
                flash_attn_func(
                    *(x.unsqueeze(0) for x in sequence), dropout_p, softmax_scale, causal,
                    window_size, **options,
                ).squeeze(0)
            )  # fmt: skip
    return torch.cat(parts) if parts else torch.empty_like(q)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, *args, **kwargs):
    """Do the same for queries, keys and values in one tensor, (tokens, 3, heads, size)."""
    lengths = cu_seqlens, cu_seqlens, max_seqlen, max_seqlen
    return flash_attn_varlen_func(*qkv.unbind(1), *lengths, *args, **kwargs)


def flash_attn_varlen_kvpacked_func(q, kv, *args, **kwargs):
    """Do the same for keys and values in one tensor, (tokens, 2, heads, size)."""
    return flash_attn_varlen_func(q, *kv.unbind(1), *args, **kwargs)


def flash_attn_with_kvcache(*args, **kwargs):
    """Refuse to keep keys and values between calls."""
    raise NotImplementedError(
        "flash_attn_with_kvcache: simgpu's stand-in for flash_attn lacks it; concatenate keys and "
        "values, and call flash_attn_func"
    )


def _numbers(begins):
    """Return where sequences begin; the GPU's kernel reads that, and the host does not wait."""
    return getattr(begins, "_data", begins).tolist()


def _masking(q, k, causal, window):
    """Return what tells `scaled_dot_product_attention` which keys a query sees."""
    queries, keys = q.shape[1], k.shape[1]
    if window == _NO_WINDOW and (not causal or queries == 1):
        return {}
    if window == _NO_WINDOW and queries == keys:
        return {"is_causal": True}
    if queries > keys:
        raise NotImplementedError(
            f"flash_attn_func: {queries} queries and {keys} keys with a mask: the first queries "
            "see no key; give no more queries than keys"
        )
    return {"attn_mask": _mask(queries, keys, causal, *window).to(q.device)}


def _mask(queries, keys, causal, left, right):
    """Return which keys each query sees, aligned to the last query and the last key."""
    ahead = torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)
    right = 0 if causal else right
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if left >= 0:
        seen &= ahead >= -left
    return seen & (ahead <= right) if right >= 0 else seen
