"""What `torch.compile` makes of pointwise chains, one kernel each: stand-ins for its kernels.

No user's program gets these kernels: what a script compiles has those of `simgpu.compiled`. Each of
these moves the bytes of the kernel that it stands for, and computes something else. Only
`Program.compiled` uses them; `simgpu.plan.step.eager` has the same names for all other programs.
"""

import torch
import torch.nn.functional as F

from simgpu.plan.step.eager import FLOAT8


class _Bias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, numbers):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.flatten(0, -2).sum(0)


def add_bias(x, numbers):
    """Add a bias in the kernel that comes next; backward one sums the gradient."""
    return x if numbers is None else _Bias.apply(x, numbers)


def swiglu(y):
    """Read both halves of the columns once, and write one."""
    return F.glu(y)


def angles(length, head, device):
    """Return a number for each position and column of a head."""
    return torch.empty(length, 1, head, device=device)


def rotate(x, angles):
    """Read x and the angles once, and write the result."""
    return x * angles.to(x.dtype)


def to_float8(x):
    """Read x for its largest number, and again to write it in 8 bits, row by row."""
    x.amax()
    scale = torch.empty((), device=x.device)
    return torch.empty(x.shape, dtype=FLOAT8, device=x.device).copy_(x), scale
