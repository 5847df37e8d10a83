"""What the host takes for eager code: seconds for each kernel, forward and backward.

In the forward pass and in optimizers Python issues each operation, and autograd notes it; in the
backward pass C++ issues them. The time depends on the processor *and* on the program. The preset's
is that of PyTorch's own operations called one by one (``assumptions.py``). Published programs took
several times as long: `SLOW`, and that in ``benchmarks/published/families/vtrain.py``.

To measure one's own, run a script with so small a batch that the GPU waits for the host, and divide
the times of both passes by their kernels, which ``simgpu run`` prints; ``--host`` then states them.
Kernels of compiled code and of CUDA graphs are launched with less Python or all at once: ``--host``
does not make them slower. An operation on a list of tensors counts as one kernel; what the host
takes for each of its tensors is not known.
"""

from dataclasses import replace

from simgpu.hardware.assumptions import LAUNCH_OVERHEAD
from simgpu.rates_and_sizes import short_time
from simgpu.units import quantity

BY_PYTHON, BY_AUTOGRAD = False, True  # what launches a kernel of eager code
# A slow host that was published: damek/cs336-assignment2-systems 749e968, small model, 4 x 128
# tokens, in PyTorch's eager mode. 21.4 ms forward, 50.6 ms for both passes, of 690 and 1233
# kernels. Fitted to these two rows alone; how right it is for others is on the page *How Far to
# Trust the Clock*.
SLOW = 31e-6, 24e-6


def option(seconds) -> str:
    """Write seconds as ``--host`` takes them.

    Examples
    --------
    >>> option(SLOW)
    '31us/24us'
    """
    return "/".join(f"{1e6 * value:g}us" for value in seconds)


HOW = f"{option(SLOW)}: in the forward pass and in optimizers, and in the backward pass; 10us: in "
HOW += "both"


def parse(text) -> tuple[float, float]:
    """Return the host's seconds for a kernel in the forward and in the backward pass.

    Raises
    ------
    ValueError
        If the text says neither.

    Examples
    --------
    >>> [round(1e6 * seconds) for seconds in parse("31us/24us")]
    [31, 24]
    """
    forward, slash, backward = text.partition("/")
    try:
        return short_time(forward), short_time(backward if slash else forward)
    except ValueError as error:
        raise ValueError(f"{error}; give {HOW}") from None


def with_host(gpu, seconds):
    """Return the GPU on a host that takes these seconds for kernels of eager code.

    Parameters
    ----------
    gpu : GPU
    seconds : tuple of float
        As `parse` returns them.
    """
    forward, backward = seconds
    return replace(gpu, launch_overhead=forward, backward_launch_overhead=backward)


def is_assumed(gpu) -> bool:
    """Return whether the host is the preset's: nobody has stated or measured another."""
    return seconds_of(gpu) == (LAUNCH_OVERHEAD, LAUNCH_OVERHEAD)


def seconds_of(gpu) -> tuple[float, float]:
    """Return the host's seconds for a kernel of eager code, forward and backward."""
    backward = gpu.backward_launch_overhead
    return gpu.launch_overhead, gpu.launch_overhead if backward is None else backward


def step_seconds(launches, seconds) -> float:
    """Return what the host takes for the launches of a step.

    Parameters
    ----------
    launches : dict
        How many, by `BY_PYTHON` and `BY_AUTOGRAD`.
    seconds : tuple of float
        As `parse` returns them.
    """
    return sum(launches[kind] * seconds[kind] for kind in (BY_PYTHON, BY_AUTOGRAD))


def in_words(seconds) -> str:
    """Write what kernels take: 31 µs each, in the backward pass 24 µs."""
    forward, backward = (quantity(value, "s") for value in seconds)
    return f"{forward} each" + (f", in the backward pass {backward}" * (forward != backward))
