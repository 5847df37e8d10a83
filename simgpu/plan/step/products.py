"""What layers are made of: weights, biases, products, and the function between two of these."""

import torch
import torch.nn.functional as F
from torch import nn

from simgpu.plan.step import float8
from simgpu.plan.step.chains import chains_of


def weight(*shape):
    """Return a parameter of that shape."""
    return nn.Parameter(torch.empty(*shape))


def bias(model, count):
    """Return a bias of `count` numbers, None if the model has no biases."""
    return weight(count) if model.biases else None


def activate(y, gated, chains):
    """Apply GELU, or SwiGLU of `chains`."""
    return chains.swiglu(y) if gated else F.gelu(y)


class Products:
    """Products by weights of (out, in): in the type of the numbers, or in 8 bits.

    Parameters
    ----------
    program : Program
    """

    def __init__(self, program):
        self.cast = chains_of(program).to_float8 if program.float8 else None

    def linear(self, x, weight, bias=None):
        """Multiply, and add a bias in the same kernel; x is (..., in)."""
        if self.cast is None:
            return F.linear(x, weight, bias)
        return float8.linear(x, weight, bias, self.cast)

    def multiply(self, a, b):
        """Multiply matrices, or many rows in more dimensions by one, in a backward pass."""
        if self.cast is None:
            return a @ b
        return float8.multiply(a.flatten(0, -2), b, self.cast).view(*a.shape[:-1], -1)
