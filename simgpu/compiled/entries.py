"""What a tape records: operations on values, which are numbers in place of tensors."""

import math
from typing import NamedTuple

import torch

from simgpu.backend.tensor import SimTensor

# Types whose values decide what an operation does; other numbers, such as a rate, do not.
_STRUCTURE = (int, bool, str, torch.dtype, torch.memory_format)


class Seen(NamedTuple):
    """A tensor as an operation sees it.

    Attributes
    ----------
    value : int
        The number of what its memory holds; each write to the memory begins another value.
    bytes : int
        What its elements take, those that an expanded tensor repeats counted once.
    shape : torch.Size
    strides : tuple of int
    offset : int
        Of its first element in the memory.
    itemsize : int
        Bytes of an element.
    """

    value: int
    bytes: int
    shape: tuple
    strides: tuple
    offset: int
    itemsize: int

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)


class Entry(NamedTuple):
    """One recorded operation.

    Attributes
    ----------
    op : Op, str or None
        The operation, or the name of one that makes constants. None: `outs` is computed again from
        `args`, since it was not kept.
    args : tuple
        Its arguments, with a `Seen` in place of a tensor and None in place of numbers that do not
        decide what it does.
    kwargs : tuple
        Those with names, as pairs.
    outs : tuple
        The `Seen` of what it makes or changes, None for a result that is no tensor.
    alone : bool
        Whether it stays a kernel of eager PyTorch: a sum of gradients that autograd keeps, or an
        operation on complex numbers.
    checkpointed : bool
        Whether it is done again in the backward pass, or this is where it is.
    """

    op: object
    args: tuple
    kwargs: tuple = ()
    outs: tuple = ()
    alone: bool = False
    checkpointed: bool = False


def structure(value, see):
    """Return a hashable copy of an argument; `see` gives the `Seen` of a simulated tensor."""
    if isinstance(value, SimTensor):
        return see(value)
    if isinstance(value, list | tuple):
        return tuple([structure(v, see) for v in value])
    return value if isinstance(value, _STRUCTURE) else None


def seen_in(values) -> list:
    """Return each `Seen` among arguments, those in lists included.

    Examples
    --------
    >>> x = Seen(0, 8, (2,), (1,), 0, 4)
    >>> seen_in((x, (x, 3), None)) == [x, x]
    True
    """
    found = []
    for value in values:
        if type(value) is Seen:
            found.append(value)
        elif type(value) is tuple:
            found += seen_in(value)
    return found
