"""At which of a GPU's peaks an operation computes, by the type of the numbers that it multiplies.

A type that an operation does not take on a GPU, or for which a GPU has no units, is an error that
names both: no operation runs at the rate of another type.
"""

import torch

FLOATS = {
    torch.float64: "float64",
    torch.complex128: "float64",
    torch.float32: "float32",
    torch.complex64: "float32",
    torch.complex32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}  # type of the numbers -> key in `GPU.flops`
EIGHT_BITS = dict.fromkeys((torch.float8_e4m3fn, torch.float8_e5m2), "float8")
INTEGERS = {torch.int8: "int8"}


def of_products(dtype) -> str:
    """Return the key of the peak of ordinary matrix products."""
    if dtype is torch.float32 and torch._C._get_cublas_allow_tf32():
        return "tf32"
    return FLOATS.get(dtype)


def of_convolutions(dtype) -> str:
    """Return the key of the peak of convolutions."""
    if dtype is torch.float32 and torch._C._get_cudnn_allow_tf32():
        return "tf32"
    return FLOATS.get(dtype)


of_attention = FLOATS.get  # no flag lets fused attention round its numbers
of_scaled_products = EIGHT_BITS.get  # `torch._scaled_mm`
of_integer_products = INTEGERS.get  # `torch._int_mm`


def peak(gpu, name, dtype, key) -> str:
    """Return `key`, after checking that it is that of a peak of a `GPU`.

    Parameters
    ----------
    gpu : GPU
    name : str
        The operation, for messages.
    dtype : torch.dtype
        The type of the numbers.
    key : str or None
        None: the operation does not take this type.

    Raises
    ------
    NotImplementedError
        If the operation does not take the type on a GPU, or the GPU has no units for it.
    """
    if key in gpu.flops:
        return key
    if key is None:
        raise NotImplementedError(
            f'"{name}" is not implemented for {dtype} on GPUs, and no other type\'s rate is taken; '
            f"convert the operands first, with x.to(torch.bfloat16) for instance"
        )
    raise NotImplementedError(
        f"{name} of {dtype} needs units that {gpu.name} lacks: it has rates for "
        f"{', '.join(gpu.flops)}. Simulate another GPU (`simgpu gpus` lists them), or write one "
        f"with flops[{key!r}] to a file (help('simgpu.hardware.gpu_file'))"
    )


def on_host(flops, key) -> str:
    """Return the key of a `CPU`'s peak in `flops`: that of float32 where it has no units."""
    return key if key in flops else "float32"
