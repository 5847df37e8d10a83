"""The error about the arguments of one call."""

from simgpu import user_frame
from simgpu.ranks.process.scheduler import RanksError


def refuse(rank, call, problem, remedy):
    """Raise an error that names the rank, the call, its line, what is wrong, and what to do.

    Examples
    --------
    >>> refuse(1, "all_reduce", "gets no tensor", "give one")
    Traceback (most recent call last):
    simgpu.ranks.process.scheduler.RanksError: rank 1: all_reduce (line 1) gets no tensor; give one
    """
    raise RanksError(f"rank {rank}: {call} ({user_frame.line()}) {problem}; {remedy}")


def dtype(tensor) -> str:
    """Return the name of a tensor's dtype: ``float32``."""
    return str(tensor.dtype).removeprefix("torch.")


def count(number, noun) -> str:
    """Return a number with its noun: ``1 tensor``, ``3 tensors``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
