"""`register_kernel`: what operations of other libraries cost."""

import math
import re
from functools import partial

from simgpu.hardware.specs import ITEM_BYTES
from simgpu.kernels import facts, precision
from simgpu.kernels.table import OTHER, Kernel

_NAME = re.compile(r"(\w+)::(\w+)")


def register_kernel(name, *, bytes=None, flops=None, peak=None) -> None:
    """State what an operation of your own, or of a library, costs on simulated GPUs.

    An operation of `torch.library` runs on simulated GPUs as it is, as one kernel that reads each
    tensor and writes each result once, and computes nothing. State what it computes, or that it
    moves more or fewer bytes; the clock then takes the longer of the two times, as for PyTorch's
    own kernels. A later statement on the same operation replaces an earlier one.

    Parameters
    ----------
    name : str
        As in `torch.library.custom_op`: ``"library::operation"``, for all its overloads.
    bytes : callable, optional
        Function of the operation's arguments that returns how many bytes one call reads and writes
        together. Default: each tensor among arguments and results once.
    flops : callable, optional
        Function of the operation's arguments that returns the floating-point operations of one
        call (a multiplication and an addition are two). Default: none.
    peak : str, optional
        The key in `GPU.flops` of the peak at which it computes, of which it reaches
        `GPU.compute_efficiency`: ``"bfloat16"``, ``"float8"`` and so on. Default: that of the type
        of its first tensor of floating-point numbers.

    Raises
    ------
    ValueError
        If the name is not of that form, or is one of PyTorch's own; if nothing is stated, or a peak
        without FLOPs; if the peak is unknown. Later, at a call, if a function returns a number that
        is negative or not finite.

    Notes
    -----
    The tensors that the functions get may have no values (``numerics=False``, ``--shapes-only``):
    use their shapes and types. What is stated stays until the process ends. If
    `torch.utils.flop_counter.register_flop_formula` states the FLOPs, they count without this.

    Examples
    --------
    A layer of weights and an activation in one kernel, which reads the weights in 8 bits:

    >>> import torch
    >>> import simgpu as sim
    >>> @torch.library.custom_op("doc::fused_layer", mutates_args=())
    ... def fused_layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    ...     return (x @ weight.to(x.dtype)).relu()
    >>> @fused_layer.register_fake
    ... def _(x, weight):
    ...     return x.new_empty(x.shape[0], weight.shape[1])
    >>> sim.register_kernel("doc::fused_layer", flops=lambda x, weight: 2 * len(x) * weight.numel())
    >>> (device,) = sim.configure(1, gpu="h100", numerics=False)
    >>> x = torch.empty(8192, 4096, device=device, dtype=torch.bfloat16)
    >>> weight = torch.empty(4096, 4096, device=device, dtype=torch.int8)
    >>> y = fused_layer(x, weight)
    >>> span = sim.trace()[-1]
    >>> span.name, span.flops == 2 * 8192 * 4096**2
    ('fused_layer', True)
    >>> span.bytes == x.nbytes + weight.nbytes + y.nbytes
    True
    """
    _check(name, bytes, flops, peak)
    peaks = precision.PRODUCTS if peak is None else precision.Precision({}, other=peak)
    facts.register(name, Kernel(
        OTHER,
        bytes=bytes and partial(_bytes, name, bytes),
        work=flops and partial(_work, name, flops),
        precision=peaks,
    ))  # fmt: skip


def _check(name, num_bytes, flops, peak):
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(
            f"name is {name!r}; give that of an operation of torch.library, such as 'mylib::fused'"
        )
    if found[1] in ("aten", "prims"):
        raise ValueError(
            f"{name} is PyTorch's own, and what it costs is part of the simulator "
            "(simgpu/kernels/table.py); register operations of other libraries"
        )
    if num_bytes is None and flops is None:
        raise ValueError(f"nothing is stated for {name}; give bytes= or flops=, or both")
    for what, function in (("bytes", num_bytes), ("flops", flops)):
        if not (function is None or callable(function)):
            raise ValueError(
                f"{what} is {function!r}; give a function of the arguments of {name} that returns "
                "a number"
            )
    if peak is not None and (flops is None or peak not in ITEM_BYTES):
        raise ValueError(
            f"peak is {peak!r}; give one of {', '.join(ITEM_BYTES)}, together with flops="
        )


def _bytes(name, function, tensors, outs, args, kwargs, out):
    return _number(name, "bytes", function(*args, **kwargs))


def _work(name, function, func, args, kwargs, out):
    return _number(name, "flops", function(*args, **kwargs)), ()


def _number(name, what, value):
    if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
        raise ValueError(
            f"the function {what}= that is registered for {name} returned {value!r}; return a "
            "number, zero or more"
        )
    return int(value)
