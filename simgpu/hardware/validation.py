"""Validate specifications: invalid ones could stop the simulated clock or turn it back."""

import math
import sys
from collections.abc import Mapping

DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16")
EIGHT_BITS = ("float8", "int8")


def check_positive(spec, names):
    """Raise ValueError unless the named fields are positive and finite."""
    for name in names:
        value = getattr(spec, name)
        if not _is_number(value) or not math.isfinite(value) or value <= 0:
            raise ValueError(
                f"{type(spec).__name__} {spec.name!r}: {name} is {value!r}; "
                "give a positive, finite number in SI units (bytes, seconds, FLOP/s)"
            )


def check_times(spec, names):
    """Raise ValueError unless the named fields are finite and not negative."""
    for name in names:
        value = getattr(spec, name)
        if not _is_number(value) or not math.isfinite(value) or value < 0:
            raise ValueError(
                f"{type(spec).__name__} {spec.name!r}: {name} is {value!r}; "
                "give a time in seconds, zero or more"
            )


def check_efficiencies(spec, names):
    """Raise ValueError unless the named fields are in (0, 1]."""
    check_positive(spec, names)
    for name in names:
        if getattr(spec, name) > 1:
            raise ValueError(
                f"{type(spec).__name__} {spec.name!r}: {name} is {getattr(spec, name)!r}; "
                "an efficiency is a share of the peak, at most 1"
            )


def check_flops(spec):
    """Raise ValueError unless `spec.flops` gives positive peaks for all `DTYPES` but float64."""
    kind = type(spec).__name__
    if not isinstance(spec.flops, Mapping):
        raise ValueError(f"{kind} {spec.name!r}: flops is {spec.flops!r}; give a dict by dtype")
    missing = [dtype for dtype in DTYPES[1:] if dtype not in spec.flops]
    if missing:
        raise ValueError(
            f"{kind} {spec.name!r}: flops lacks {', '.join(missing)}; give a peak for each of "
            f"{', '.join(DTYPES[1:])} (repeat float32's where the hardware has no faster path)"
        )
    unknown = [str(dtype) for dtype in spec.flops if dtype not in (*DTYPES, *EIGHT_BITS)]
    if unknown:
        raise ValueError(
            f"{kind} {spec.name!r}: flops has {', '.join(unknown)}; known are "
            f"{', '.join((*DTYPES, *EIGHT_BITS))}"
        )
    for dtype, peak in spec.flops.items():
        if not _is_number(peak) or not math.isfinite(peak) or peak <= 0:
            raise ValueError(
                f"{kind} {spec.name!r}: flops[{dtype!r}] is {peak!r}; give a positive number"
            )


def _is_number(value):
    """Return whether a value is a number that a float can hold, infinite ones included."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return isinstance(value, float) or abs(value) <= sys.float_info.max


def check_name(spec):
    """Raise ValueError unless the name is a non-empty string."""
    if not isinstance(spec.name, str) or not spec.name:
        raise ValueError(f"{type(spec).__name__}: name is {spec.name!r}; give a non-empty string")
