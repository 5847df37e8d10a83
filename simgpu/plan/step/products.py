"""What layers are made of: weights, biases, the function between two products."""

import torch
import torch.nn.functional as F
from torch import nn


def weight(*shape):
    """Return a parameter of that shape."""
    return nn.Parameter(torch.empty(*shape))


def bias(model, count):
    """Return a bias of `count` numbers, None if the model has no biases."""
    return weight(count) if model.biases else None


class _Bias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, numbers):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.flatten(0, -2).sum(0)


def add_bias(x, numbers):
    """Add a bias, if there is one.

    No kernel in the forward pass: the product before it or the fused kernel after it adds the
    bias. In the backward pass a kernel sums the gradient.
    """
    return x if numbers is None else _Bias.apply(x, numbers)


def activate(y, gated, compiled):
    """Apply GELU or SwiGLU; compiled, this is one kernel."""
    if not gated:
        return F.gelu(y)
    if compiled:
        return F.glu(y)  # moves the bytes of a fused SwiGLU
    gate, y = y.chunk(2, -1)
    return F.silu(gate) * y
