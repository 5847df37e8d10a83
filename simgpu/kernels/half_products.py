"""Products of 16-bit numbers on the host: through float32, rounded once, as tensor cores do.

The host's own kernels for them are many times slower where the processor has no instructions for
them, and add in another order.
"""

import functools

import torch

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward")
_HALF = (torch.float16, torch.bfloat16)


def has_fast_bfloat16() -> bool:
    """Return whether the processor multiplies bfloat16 numbers, adding in float32."""
    names = "_is_avx512_bf16_supported", "_is_amx_tile_supported"
    return any(getattr(torch.cpu, name, bool)() for name in names)


_SLOW = (torch.float16,) if has_fast_bfloat16() else _HALF


def is_product(func) -> bool:
    """Return whether an operation makes products that may go through float32."""
    named = func.namespace == "aten" and func.overloadpacket.__name__ in _PRODUCTS
    return named and func._overloadname == "default"


def through_float32(compute):
    """Wrap the function that computes a product on the host."""

    @functools.wraps(compute)
    def product(*args, **kwargs):
        kind = args[0].dtype
        if kind not in _SLOW or kwargs or any(_differs(value, kind) for value in args):
            return compute(*args, **kwargs)
        out = compute(*(v.float() if isinstance(v, torch.Tensor) else v for v in args))
        if isinstance(out, torch.Tensor):
            return out.to(kind)
        return tuple(one if one is None else one.to(kind) for one in out)

    return product


def _differs(value, kind):
    """Return whether PyTorch refuses an operand, or keeps no values in it."""
    return isinstance(value, torch.Tensor) and (value.dtype is not kind or value.is_meta)
