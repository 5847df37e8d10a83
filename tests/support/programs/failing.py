"""What fails where a program calls it."""

import torch


class FailsBackward(torch.autograd.Function):
    """Doubles; its backward pass raises a KeyError."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise KeyError("mine")
