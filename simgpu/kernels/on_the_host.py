"""How the host computes values where the CPU's own way is slow.

Products of 16-bit numbers go through 32 bits if the CPU has no instructions for them, with which it
takes some forty times as long. Tensor cores do the same: they add up in 32 bits, and round once.
"""

from functools import lru_cache

import torch

_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward"}


def through_float32(packet_name, overload, call):
    """Return `call`, or what computes it in 32 bits if it is a product that the CPU is slow at."""
    if packet_name not in _PRODUCTS or overload != "default":
        return call

    def compute(*args, **kwargs):
        first = args[0]
        if first.dtype not in slow_types() or first.is_meta:
            return call(*args, **kwargs)
        wide = (a.float() if isinstance(a, torch.Tensor) else a for a in args)
        out = call(*wide, **kwargs)
        if isinstance(out, torch.Tensor):
            return out.to(first.dtype)
        return tuple(one if one is None else one.to(first.dtype) for one in out)

    return compute


@lru_cache(maxsize=1)
def slow_types() -> frozenset:
    """Return the types of 16 bits whose products this CPU has no instructions for."""
    slow = set()
    if not _has("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        slow.add(torch.bfloat16)
    if not _has("_is_amx_fp16_supported"):
        slow.add(torch.float16)
    return frozenset(slow)


def _has(*names):
    """Return whether `torch.cpu` knows one of some features, and the CPU has it."""
    return any(getattr(torch.cpu, name, bool)() for name in names)
