"""Pointwise chains as eager PyTorch runs them: a kernel for each operation.

`simgpu.plan.step.compiled` has the same names for what is compiled.
"""

import torch
import torch.nn.functional as F

FLOAT8 = torch.float8_e4m3fn
_LARGEST = torch.finfo(FLOAT8).max


def add_bias(x, numbers):
    """Add a bias, if there is one, in a kernel of its own."""
    return x if numbers is None else x + numbers


def swiglu(y):
    """Multiply the second half of the columns by SiLU of the first."""
    gate, y = y.chunk(2, -1)
    return F.silu(gate) * y


def angles(length, head, device):
    """Return a complex number for each position and pair of columns of a head."""
    return torch.empty(length, 1, head // 2, dtype=torch.complex64, device=device)


def rotate(x, angles):
    """Turn pairs of columns by the angles of their positions, as Llama's own code does."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * angles).flatten(-2).type_as(x)


def to_float8(x):
    """Return x in 8 bits, row by row, and what it was divided by, as torchao's dynamic casts do."""
    scale = _LARGEST / x.abs().amax().float().clamp(min=1e-12)
    cast = (x.float() * scale).clamp(-_LARGEST, _LARGEST).to(FLOAT8)
    return cast.contiguous(), scale.reciprocal()
