"""`flex_attention` as products and a softmax: PyTorch traces it, and makes a kernel for Triton.

The values are those of the kernel. The time and the memory are those of the separate operations,
among them the square matrix of scores that the kernel never writes.
"""

import torch
from torch.nn.attention import flex_attention as of_torch

NAME = f"{of_torch.__name__}:flex_attention"
NOTE = "flex_attention runs as products and a softmax: real GPUs take one kernel, and less memory"


def make(warn):
    """Return a function in place of `flex_attention`; `warn` is told what its times mean."""

    def flex_attention(
        query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False,
        return_lse=False, kernel_options=None, *, return_aux=None,
    ):  # fmt: skip
        warn(NOTE)
        if enable_gqa:
            repeats = query.shape[1] // key.shape[1]
            key, value = (x.repeat_interleave(repeats, dim=1) for x in (key, value))
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        scores = query @ key.transpose(-2, -1)
        scores = (scores if scores.dtype is torch.float64 else scores.float()) * scale
        scores = _modified(scores, score_mod, block_mask)
        largest = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
        weights = (scores - largest.detach()).exp()
        total = weights.sum(-1, keepdim=True)
        # A query that may see no key gets zeros.
        out = (weights / total.clamp(min=torch.finfo(torch.float32).tiny)).to(value.dtype) @ value
        if not return_lse and return_aux is None:
            return out
        lse = (largest.detach() + total.log()).squeeze(-1)
        if return_lse:
            return out, lse
        aux = of_torch.AuxOutput(
            lse=lse if return_aux.lse else None,
            max_scores=scores.amax(-1) if return_aux.max_scores else None,
        )
        return out, aux

    return flex_attention


def _modified(scores, score_mod, block_mask):
    """Apply a function to each score, and remove those that a mask covers.

    The functions are given all places at once, along four dimensions.
    """
    places = [
        torch.arange(n, device=scores.device).view([-1 if d == dim else 1 for d in range(4)])
        for dim, n in enumerate(scores.shape)
    ]
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.mask_mod(*places), float("-inf"))
    return scores
