"""Matrix products of 8-bit numbers: what CUDA refuses and the CPU would compute.

The rules are those of PyTorch 2.13: ``aten/src/ATen/native/cuda/ScaledBlas.cpp`` for
`torch._scaled_mm`, ``aten/src/ATen/native/cuda/Blas.cpp`` for `torch._int_mm`.
"""

import torch

from simgpu.backend.operations.run import run
from simgpu.backend.ops import aten
from simgpu.backend.tensor import handles


@handles(aten._scaled_mm)
@handles(aten._scaled_mm_v2)
def run_scaled_product(op, args, kwargs):
    """Run a product of float8 matrices, the second of which is stored by columns."""
    a, b = args[:2]
    if why := next((text for text, refused in _scaled(a, b) if refused), None):
        raise RuntimeError(f"{op.name}: {why}")
    return run(op, args, kwargs)


def _scaled(a, b):
    shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
    yield f"expected two matrices, got {shapes}", not a.dim() == b.dim() == 2
    strides = f"strides {a.stride()} and {b.stride()}"
    by_rows, by_columns = a.stride(-1) == 1, b.stride(0) == 1
    yield (
        f"self must be row_major and mat2 col_major (y.t()), got {strides}",
        not (by_rows and by_columns),
    )
    yield (
        f"the last two sizes must be divisible by 16, got {shapes}",
        any(size % 16 for size in (a.shape[1], b.shape[1])),
    )
    both = a.dtype is b.dtype is torch.float8_e5m2
    yield "Multiplication of two Float8_e5m2 matrices is not supported", both


@handles(aten._int_mm)
def run_integer_product(op, args, kwargs):
    """Run a product of int8 matrices."""
    (rows, depth), columns = args[0].shape, args[1].shape[1]
    if rows <= 16:
        raise RuntimeError(f"self.size(0) needs to be greater than 16, but got {rows}")
    for name, size in (("self.size(1)", depth), ("mat2.size(1)", columns)):
        if size == 0 or size % 8:
            raise RuntimeError(f"{name} needs to be a positive multiple of 8, but got {size}")
    return run(op, args, kwargs)
