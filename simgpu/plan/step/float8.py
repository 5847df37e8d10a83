"""Products of 8-bit numbers: each tensor with one scale, which follows from its largest number.

As torchao's float8 training has them: both operands of all three products of a layer are cast
anew, from what is kept in 16 bits. `torch._scaled_mm` wants the rows of the first and the columns
of the second in one piece.
"""

import torch


def multiply(a, b, cast, bias=None):
    """Return ``a @ b`` in the type of `a`, with the operands in 8 bits; `cast` makes these."""
    (rows, scale_a), (columns, scale_b) = cast(a), cast(b.t())
    return torch._scaled_mm(
        rows, columns.t(), scale_a, scale_b, bias, out_dtype=a.dtype, use_fast_accum=True
    )


class _Linear(torch.autograd.Function):
    """A product by a weight of (out, in), and a bias; x is (tokens, in)."""

    @staticmethod
    def forward(ctx, x, weight, bias, cast):
        ctx.save_for_backward(x, weight)
        ctx.cast = cast
        return multiply(x, weight.t(), cast, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        of_bias = grad.sum(0) if ctx.needs_input_grad[2] else None
        of_x, of_weight = multiply(grad, weight, ctx.cast), multiply(grad.t(), x, ctx.cast)
        return of_x, of_weight, of_bias, None


def linear(x, weight, bias, cast):
    """Multiply by a weight of (out, in), with a backward pass; x is (..., in)."""
    return _Linear.apply(x.flatten(0, -2), weight, bias, cast).view(*x.shape[:-1], -1)
