"""Attention on simulated GPUs: PyTorch's function, and the fused kernels behind it.

PyTorch's C++ asks for a fused kernel only on devices that it knows. So its function has a kernel
here that asks `choice`, and then calls what PyTorch's own calls on CUDA: the operation of one fused
kernel, or the products and the softmax that PyTorch decomposes it into. The operations of the fused
kernels have no implementation on the CPU, on which values are computed; `values` is one.
"""

import functools
import math

import torch

from simgpu.backend.attention import choice
from simgpu.backend.attention.values import Attention
from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.kernels.facts import aten
from simgpu.naming import is_simulated

_KEY = torch._C.DispatchKey.AutogradMeta  # to which C++ dispatches operations on our tensors
_ALIGNED = 32  # log-sum-exps of the memory-efficient kernel are a multiple of this


def register(library) -> None:
    """Register attention in a library of ``aten``, until the library is destroyed."""
    name = "scaled_dot_product_attention"
    own = torch.library.get_kernel(f"aten::{name}", _KEY)
    own = functools.partial(own.call_boxed, torch._C.DispatchKeySet(_KEY))
    library.impl(name, functools.partial(attend, own), "AutogradMeta")
    for name, kernel in {**_FORWARD, **_BACKWARD}.items():
        library.impl(name, kernel, "CPU")


def attend(
    own, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *,
    scale=None, enable_gqa=False,
):  # fmt: skip
    """Run one call of attention as PyTorch does on the GPU; `own` runs products and a softmax."""
    backend = choose(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa=enable_gqa)
    if backend == choice.MATH:
        options = {"scale": scale, "enable_gqa": enable_gqa}
        return own(query, key, value, attn_mask, dropout_p, is_causal, **options)
    if backend == choice.FLASH:
        return _flash(query, key, value, dropout_p, is_causal, scale)
    inputs = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    grads = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    bias = _bias(attn_mask, query, key)
    if backend == choice.CUDNN:
        return aten._scaled_dot_product_cudnn_attention(
            query, key, value, bias, grads, dropout_p, is_causal, False, scale=scale
        )[0]
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, grads, dropout_p, is_causal, scale=scale
    )[0]


def choose(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *,
    scale=None, enable_gqa=False,
):  # fmt: skip
    """Return the number of the backend for a call: on simulated GPUs what PyTorch takes there."""
    if not all(map(_is_ours, (query, key, value))):
        return choice.MATH
    gpu = current.find_device(query.device).gpu
    return choice.choose(
        gpu, query, key, value, attn_mask, dropout_p, is_causal, enable_gqa
    )  # fmt: skip


def _is_ours(x):
    """Whether a tensor is on a simulated GPU, such as a DTensor of parts that are."""
    return isinstance(x, SimTensor) or (type(x) is not torch.Tensor and is_simulated(x.device))


def _flash(query, key, value, dropout, causal, scale):
    """Pad heads to a multiple of 8 numbers, as PyTorch does before flash attention."""
    size = query.shape[-1]
    scale = 1 / math.sqrt(size) if scale is None else scale
    if missing := -size % 8:
        query, key, value = (
            torch.nn.functional.pad(x, (0, missing)) for x in (query, key, value)
        )  # fmt: skip
    out = aten._scaled_dot_product_flash_attention(
        query, key, value, dropout, causal, False, scale=scale
    )[0]
    return out[..., :size] if missing else out


def _bias(mask, query, key):
    """Return what a kernel adds to the scores for a mask, without a copy for each head."""
    if mask is None:
        return None
    if mask.dtype is torch.bool:
        nothing = torch.scalar_tensor(-math.inf, dtype=query.dtype)
        mask = torch.where(mask, torch.zeros_like(nothing), nothing)
    return mask.expand(*query.shape[:3], key.shape[2])


def _draw(dropout, dtype=torch.int64):
    """Return the state of dropout's random numbers: a seed, and an offset that stays 0.

    The operation runs with the device's random state in place of the host's.
    """
    seed = torch.randint(2**63 - 1, ()) if dropout else torch.zeros((), dtype=torch.int64)
    return seed.to(dtype), torch.zeros((), dtype=dtype)


def _like_heads(query, value):
    """Return an empty output in the memory order (batch, length, heads, size)."""
    batch, heads, length, _ = query.shape
    return query.new_empty(batch, length, heads, value.shape[-1]).transpose(1, 2)


def _flash_forward(
    query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None
):
    # Where there are more keys than queries, flash attention's mask is aligned at their ends.
    diagonal = key.shape[2] - query.shape[2] if is_causal else None
    seed, offset = _draw(dropout_p, torch.uint64)
    out = torch.empty_like(query)
    sums = Attention(
        query, key, value, None, dropout_p, diagonal, scale, int(seed)
    ).forward(out)  # fmt: skip
    lengths = query.shape[2], key.shape[2]
    state = torch.stack([seed, offset])
    return out, sums, None, None, *lengths, state, offset, query.new_empty(0)


def _flash_backward(
    grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
    is_causal, philox_seed, philox_offset, *, scale=None,
):  # fmt: skip
    diagonal = key.shape[2] - query.shape[2] if is_causal else None
    grads = [*map(torch.empty_like, (query, key, value))]
    seed = int(philox_seed.flatten()[0])
    Attention(
        query, key, value, None, dropout_p, diagonal, scale, seed
    ).backward(grad_out, out, logsumexp, [*grads, None])  # fmt: skip
    return tuple(grads)


def _efficient_forward(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None
):
    seed, offset = _draw(dropout_p)
    out, diagonal = _like_heads(query, value), 0 if is_causal else None
    sums = Attention(
        query, key, value, attn_bias, dropout_p, diagonal, scale, int(seed)
    ).forward(out)  # fmt: skip
    if compute_log_sumexp:
        sums = torch.nn.functional.pad(sums, (0, -sums.shape[2] % _ALIGNED), value=math.inf)
    else:
        sums = sums.new_empty(*sums.shape[:2], 0)
    return out, sums, seed, offset


def _efficient_backward(
    grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p,
    grad_input_mask, is_causal=False, *, scale=None,
):  # fmt: skip
    grads = [_like_heads(x, x) for x in (query, key, value)]
    grad_bias = None
    if attn_bias is not None and grad_input_mask[3]:
        *shape, last = attn_bias.shape
        grad_bias = attn_bias.new_empty(*shape, last + -last % 16)[..., :last]
    seed, diagonal = int(philox_seed), 0 if is_causal else None
    Attention(
        query, key, value, attn_bias, dropout_p, diagonal, scale, seed
    ).backward(grad_out_, out, logsumexp[..., : query.shape[2]], [*grads, grad_bias])  # fmt: skip
    return *grads, grad_bias


def _cudnn_forward(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False,
    return_debug_mask=False, *, scale=None,
):  # fmt: skip
    seed, offset = _draw(dropout_p)
    out, diagonal = torch.empty_like(query), 0 if is_causal else None
    if value.shape[-1] != query.shape[-1]:
        out = _like_heads(query, value)
    sums = Attention(
        query, key, value, attn_bias, dropout_p, diagonal, scale, int(seed)
    ).forward(out)  # fmt: skip
    lengths = query.shape[2], key.shape[2]
    return out, sums.unsqueeze(-1), None, None, *lengths, seed, offset, None


def _cudnn_backward(
    grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, attn_bias, cum_seq_q,
    cum_seq_k, max_q, max_k, dropout_p, is_causal, *, scale=None,
):  # fmt: skip
    grads, diagonal = [*map(torch.empty_like, (query, key, value))], 0 if is_causal else None
    Attention(
        query, key, value, attn_bias, dropout_p, diagonal, scale, int(philox_seed)
    ).backward(grad_out, out, logsumexp.squeeze(-1), [*grads, None])  # fmt: skip
    return tuple(grads)


_FORWARD = {
    "_scaled_dot_product_flash_attention": _flash_forward,
    "_scaled_dot_product_efficient_attention": _efficient_forward,
    "_scaled_dot_product_cudnn_attention": _cudnn_forward,
}
_BACKWARD = {
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
}
