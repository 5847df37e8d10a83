"""Kernels that programs launch and PyTorch lacks: Adam in one pass, products of 8-bit numbers.

They compute nothing: a simulated GPU without values asks only what they read, write and compute.
"""

import torch
from torch.utils.flop_counter import register_flop_formula

_LIBRARY = torch.library.Library("simgpu_plan", "DEF")
_OPS = torch.ops.simgpu_plan


def _define(signature, fn):
    _LIBRARY.define(signature)
    name = signature.partition("(")[0]
    for key in ("CPU", "Meta"):
        _LIBRARY.impl(name, fn, key)
    return getattr(_OPS, name)


_touched = _define("touch(Tensor[] tensors) -> Tensor", lambda tensors: tensors[0].new_empty(()))
_product = _define("product(Tensor a, Tensor b, float work) -> Tensor", lambda a, b, work: a @ b)


@register_flop_formula(_product)
def _product_flops(a, b, work, out_shape=None, **_):
    return int(2 * work * a[0] * a[1] * b[1])


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
