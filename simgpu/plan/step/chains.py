"""Chains of operations between products, as PyTorch has them.

An eager program launches a kernel for each operation. One with `Program.fused` has compiled each
chain as a function of its own, as Megatron-LM has.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from simgpu.compiled.regions import Region, Settings

FLOAT8 = torch.float8_e4m3fn
_LARGEST = torch.finfo(FLOAT8).max


def add(x, y, bias, dropout):
    """Add y to x, behind its bias (or None) and dropout of that probability."""
    y = y if bias is None else y + bias
    return x + (F.dropout(y, dropout) if dropout else y)


def _add_fused(x, y, bias, dropout):
    """Do the same in one kernel; as in Megatron-LM, the bias's gradient is summed behind it."""
    return _ADD(x, y, None if bias is None else bias.expand_as(y), dropout)


def swiglu(y):
    """Multiply the second half of the columns by SiLU of the first."""
    gate, y = y.chunk(2, -1)
    return F.silu(gate) * y


def complex_angles(length, head, device):
    """Return a complex number for each position and pair of columns of a head."""
    return torch.empty(length, 1, head // 2, dtype=torch.complex64, device=device)


def rotate_pairs(x, angles):
    """Turn pairs of columns by the angles of their positions, as Llama's own code does."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * angles).flatten(-2).type_as(x)


def real_angles(length, head, device):
    """Return an angle for each position and column of a head."""
    return torch.empty(length, 1, head, device=device)


def rotate_halves(x, angles):
    """Turn each column of the first half with one of the second, as Megatron-LM does."""
    first, second = x.chunk(2, -1)
    turned = torch.cat((-second, first), -1)
    return (x * angles.cos() + turned * angles.sin()).type_as(x)


def to_float8(x):
    """Return x in 8 bits, row by row, and what it was divided by, as torchao's dynamic casts do."""
    scale = _LARGEST / x.abs().amax().float().clamp(min=1e-12)
    cast = (x.float() * scale).clamp(-_LARGEST, _LARGEST).to(FLOAT8)
    return cast.contiguous(), scale.reciprocal()


@dataclass(frozen=True)
class Chains:
    """The chains of a program, in functions."""

    add: Callable
    swiglu: Callable
    angles: Callable
    rotate: Callable
    to_float8: Callable


def _fuse(function):
    """Compile a function; a call of its kernel takes the host as long as another kernel's."""
    return Region(function, Settings(call_seconds=0.0, launch_seconds=math.inf))


_ADD = _fuse(add)
_EAGER = Chains(add, swiglu, complex_angles, rotate_pairs, to_float8)
_FUSED = Chains(
    _add_fused, _fuse(swiglu), real_angles, _fuse(rotate_halves), _fuse(to_float8)
)  # fmt: skip


def chains_of(program) -> Chains:
    """Return the chains of a `Program`."""
    return _FUSED if program.fused else _EAGER
