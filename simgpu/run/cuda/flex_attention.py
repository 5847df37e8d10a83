"""`flex_attention`: one kernel in compiled code; in eager code products and a softmax.

So it is in PyTorch. The kernel works on the blocks of scores that the mask does not cover wholly.
"""

import functools

import torch
from torch.nn.attention import flex_attention as of_torch

from simgpu.backend.operations.known_values import is_known
from simgpu.backend.tensor import SimTensor
from simgpu.compiled.one_kernel import OneKernel
from simgpu.compiled.tape import recording
from simgpu.hardware.attention import FusedAttention
from simgpu.kernels.facts import aten, lookup

NAME = f"{of_torch.__name__}:flex_attention"
NOTE = "flex_attention is not compiled here: it runs as products and a softmax, and takes longer"
FUSED = (
    "flex_attention: what is said of eager code counts it as one kernel, too; there (--eager) it "
    "runs as products and a softmax, and takes longer"
)
ASSUMED = (
    "flex_attention: the mask depends on values that --shapes-only has not; assumed: half of all "
    "blocks"
)


def make(warn):
    """Return a function in place of `flex_attention`; `warn` is told what its times mean."""

    def flex_attention(
        query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False,
        return_lse=False, kernel_options=None, *, return_aux=None,
    ):  # fmt: skip
        def attend(query, key, value, mask=block_mask):
            return _attend(
                query, key, value, score_mod, mask, scale, enable_gqa, return_lse, return_aux
            )

        if not isinstance(query, SimTensor) or recording(query._device) is None:
            warn(NOTE)
            return attend(query, key, value)
        if not is_known(query._data):  # a mask of large sequences would take the host's memory
            attend = functools.partial(attend, mask=None)
        warn(FUSED)
        return _as_one_kernel(attend, query, key, value, block_mask, warn)

    return flex_attention


def _as_one_kernel(attend, query, key, value, block_mask, warn):
    """Attend in one kernel, whose FLOPs are those of the blocks that it visits."""
    pairs, size, value_size = _pairs(block_mask, query, key, warn), query.shape[-1], value.shape[-1]
    forward = int(2 * pairs * (size + value_size))
    backward = int(2 * pairs * (3 * size + 2 * value_size))  # the scores are computed again
    device = query._device
    peak = lookup(aten._scaled_dot_product_flash_attention.default).peak([query], device.gpu)
    return OneKernel(
        device, "flex_attention",
        (forward, peak, FusedAttention("flex", forward)),
        (backward, peak, FusedAttention("flex_backward", backward)),
    ).run(attend, (query, key, value))  # fmt: skip


def _pairs(mask, query, key, warn):
    """Return the pairs of queries and keys in the blocks that a kernel visits."""
    batch, heads, length = query.shape[:3]
    every = batch * heads * length * key.shape[-2]
    if mask is None:
        return every
    counts = [mask.kv_num_blocks, mask.full_kv_num_blocks]
    counts = [c._data if isinstance(c, SimTensor) else c for c in counts if c is not None]
    area = mask.BLOCK_SIZE[0] * mask.BLOCK_SIZE[1]
    if all(c.device.type == "cpu" for c in counts):
        visited = sum(c.sum(-1, dtype=torch.float64).mean().item() for c in counts)
        return min(every, batch * heads * visited * area)
    share = _share_of_blocks(mask, length, key.shape[-2])
    if share is None:
        warn(ASSUMED)
        share = 0.5
    return every * share


def _share_of_blocks(mask, length, keys):
    """Return the share of blocks in which a mask of places alone shows anything; None if unknown.

    The first, the middle and the last row and column of each block are looked at.
    """
    rows, columns = (
        torch.arange(-(-n // size))[:, None] * size + torch.tensor([0, size // 2, size - 1])
        for n, size in zip((length, keys), mask.BLOCK_SIZE, strict=True)
    )
    rows, columns = (x.clamp(max=n - 1) for x, n in ((rows, length), (columns, keys)))
    zero = torch.zeros((), dtype=torch.int64)
    try:
        seen = mask.mask_mod(zero, zero, rows.view(-1, 1), columns.view(1, -1))
    except RuntimeError:  # it reads a tensor on a simulated GPU
        return None
    if not isinstance(seen, torch.Tensor) or isinstance(seen, SimTensor):
        return None
    seen = seen.expand(rows.numel(), columns.numel()).unflatten(0, (-1, 3)).unflatten(-1, (-1, 3))
    return seen.any(-1).any(1).double().mean().item()


def _attend(
    query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, return_aux
):  # fmt: skip
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
