"""Kernels that published programs launch and PyTorch lacks: flash attention, Adam in one pass.

They compute nothing: a simulated GPU without values asks only what they read, write and compute.
"""

import math

import torch
from torch.utils.flop_counter import register_flop_formula

_LIBRARY = torch.library.Library("published", "DEF")
_OPS = torch.ops.published
FORWARD, BACKWARD = 4, 10  # FLOPs for each query, key and dimension: 2 products, 5 products


def _define(signature, fn):
    _LIBRARY.define(signature)
    name = signature.partition("(")[0]
    for key in ("CPU", "Meta"):
        _LIBRARY.impl(name, fn, key)
    return getattr(_OPS, name)


def _attend(q, k, v, work):
    return torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)


def _attend_back(grad, q, k, v, out, sums, work):
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


_attention = _define(
    "attend(Tensor q, Tensor k, Tensor v, float work) -> (Tensor, Tensor)", _attend
)
_attention_back = _define(
    "attend_back(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor sums, float work)"
    " -> (Tensor, Tensor, Tensor)",
    _attend_back,
)
_touched = _define("touch(Tensor[] tensors) -> Tensor", lambda tensors: tensors[0].new_empty(()))
_product = _define("product(Tensor a, Tensor b, float work) -> Tensor", lambda a, b, work: a @ b)


@register_flop_formula(_attention)
def _attention_flops(q, k, v, work, out_shape=None, **_):
    return int(FORWARD * work * _pairs(q, k))


@register_flop_formula(_attention_back)
def _attention_back_flops(grad, q, k, v, out, sums, work, out_shape=None, **_):
    return int(BACKWARD * work * _pairs(q, k))


@register_flop_formula(_product)
def _product_flops(a, b, work, out_shape=None, **_):
    return int(2 * work * a[0] * a[1] * b[1])


def _pairs(q, k):
    """Multiply queries, keys and dimensions; shapes are (batch, length, heads, dimension)."""
    return math.prod(q) * k[1]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, forward, backward):
        out, sums = _attention(q, k, v, forward)
        ctx.save_for_backward(q, k, v, out, sums)
        ctx.work = backward
        return out

    @staticmethod
    def backward(ctx, grad):
        return *_attention_back(grad, *ctx.saved_tensors, ctx.work), None, None


def flash_attention(q, k, v, forward=0.5, backward=0.5):
    """Attend in one kernel, which keeps no scores.

    Parameters
    ----------
    q, k, v : torch.Tensor
        (batch, length, heads, dimension); `k` and `v` may have fewer heads.
    forward, backward : float
        Share of the work that is done: half if keys after the query are skipped. More stands for
        a kernel that reaches less of the peak than products do.
    """
    return _Attention.apply(q, k, v, forward, backward)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, work):
        ctx.save_for_backward(x, weight)
        ctx.work = work
        return _product(x, weight.t(), work)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return _product(grad, weight, ctx.work), _product(grad.t(), x, ctx.work), None


def linear(x, weight, work=1.0):
    """Multiply by a weight of (out, in); `work` 0.5: at twice the peak of the numbers' type."""
    if work == 1:
        return torch.nn.functional.linear(x, weight)
    return _Product.apply(x.reshape(-1, x.shape[-1]), weight, work).view(*x.shape[:-1], -1)


def touch(tensors):
    """Launch one kernel that moves the bytes of all these tensors (name one twice: twice)."""
    _touched(tensors)
