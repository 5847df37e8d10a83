"""At which of a GPU's peaks an operation computes, by the type of the numbers that it multiplies.

A type that an operation does not take on a GPU, or for which a GPU has no units, is an error that
names both: no operation runs at the rate of another type.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

_FLOATS = {
    torch.float64: "float64",
    torch.complex128: "float64",
    torch.float32: "float32",
    torch.complex64: "float32",
    torch.complex32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}


@dataclass(frozen=True, eq=False)
class Precision:
    """At which peak an operation multiplies each type of numbers.

    Attributes
    ----------
    peaks : dict of torch.dtype to str
        Key in `GPU.flops` by type.
    rounds : callable, optional
        Whether PyTorch lets tensor cores round float32 numbers (TF32); None: never.
    other : str, optional
        Key for all other types; None: they are refused.
    """

    peaks: Mapping
    rounds: Callable | None = None
    other: str | None = None

    def on_host(self, flops, dtype) -> str:
        """Return the key of a `CPU`'s peak in `flops`: float32's where it has no units."""
        key = self.peaks.get(dtype, self.other)
        return key if key in flops else "float32"


PRODUCTS = Precision(_FLOATS, torch._C._get_cublas_allow_tf32)
CONVOLUTIONS = Precision(_FLOATS, torch._C._get_cudnn_allow_tf32)
ATTENTION = Precision(_FLOATS)
SCALED = Precision(dict.fromkeys((torch.float8_e4m3fn, torch.float8_e5m2), "float8"))
INTEGERS = Precision({torch.int8: "int8"})


def refusal(gpu, name, dtype, key) -> NotImplementedError:
    """Return the error for an operation on a type.

    Parameters
    ----------
    gpu : GPU
    name : str
        The operation.
    dtype : torch.dtype
    key : str or None
        Of the peak that the GPU lacks; None: the operation does not take this type on any GPU.
    """
    if key is None:
        return NotImplementedError(
            f'"{name}" is not implemented for {dtype} on GPUs, and no other type\'s rate is taken; '
            "convert the operands first, with x.to(torch.bfloat16) for instance"
        )
    return NotImplementedError(
        f"{name} of {dtype} needs units for {key}, which {gpu.name} lacks: it has rates for "
        f"{', '.join(gpu.flops)}. Simulate another GPU (`simgpu gpus` lists them), or write one "
        f"with flops[{key!r}] to a file (help('simgpu.hardware.gpu_file'))"
    )
