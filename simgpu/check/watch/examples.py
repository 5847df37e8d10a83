"""Watch which examples the data loaders of a script deliver to each rank."""

import functools
import hashlib
import weakref
from collections import defaultdict, deque

import torch

from simgpu.backend.pytorch.replacements import exists, find
from simgpu.check.watch.records import Pass
from simgpu.check.watch.tensors import values

_LOADER = "torch.utils.data.dataloader"
_ITER = f"{_LOADER}:DataLoader.__iter__"
_NEXT = f"{_LOADER}:_BaseDataLoaderIter.__next__"
_INDEX = f"{_LOADER}:_BaseDataLoaderIter._next_index"


class Examples:
    """Notes the examples of batches, by their numbers or else by their content.

    Parameters
    ----------
    rank : callable
        Returns the record of the rank that runs; None outside of ranks.
    line : callable
        Returns the line of the script that runs.
    reverse : bool
        Whether each batch has its examples in reverse order.

    Attributes
    ----------
    reversed : bool
        Whether a batch was reversed.
    """

    def __init__(self, rank, line, reverse=False):
        self._rank, self._line, self._reverse, self.reversed = rank, line, reverse, False
        self._drawn = defaultdict(deque)  # id of an iterator -> numbers of batches not yet taken
        self._passes = weakref.WeakKeyDictionary()  # iterator -> its pass

    def replacements(self) -> dict:
        """Return what takes the place of methods of PyTorch's loader."""
        new = {_ITER: self._begin(find(_ITER)), _NEXT: self._take(find(_NEXT))}
        if exists(_INDEX):  # else examples are told apart by their content
            new[_INDEX] = self._draw(find(_INDEX))
        return new

    def _begin(self, real):
        @functools.wraps(real)
        def begin(loader):
            rank = self._rank()
            if rank is None:
                return real(loader)
            self._drawn.pop(id(getattr(loader, "_iterator", None)), None)  # of persistent workers
            iterator = real(loader)
            name, size = type(loader.dataset).__name__, _length(loader.dataset)
            by_number = size is not None and not isinstance(
                loader.dataset, torch.utils.data.IterableDataset
            )
            self._passes[iterator] = Pass(name, size, self._line(), by_number and exists(_INDEX))
            rank.passes.append(self._passes[iterator])
            return iterator

        return begin

    def _draw(self, real):
        @functools.wraps(real)
        def draw(iterator):
            numbers = real(iterator)
            if self._rank() is None:
                return numbers
            if self._reverse and isinstance(numbers, list) and None not in numbers:
                numbers, self.reversed = numbers[::-1], True
            self._drawn[id(iterator)].append(numbers)
            return numbers

        return draw

    def _take(self, real):
        @functools.wraps(real)
        def take(iterator):
            try:
                batch = real(iterator)
            except StopIteration:
                if iterator in self._passes:
                    self._passes[iterator].ended = True
                raise
            rank, found = self._rank(), self._passes.get(iterator)
            if rank is not None and found is not None:
                self._note(rank, found, self._drawn.get(id(iterator)), batch)
            return batch

        return take

    def _note(self, rank, found, drawn, batch):
        numbers = drawn.popleft() if drawn else None
        if not found.by_number:
            numbers = digests(batch)
        elif not isinstance(numbers, list):  # a loader without batches
            numbers = [numbers]
        found.examples += numbers
        rank.now.examples.setdefault(f"{found.data} of {found.size}", []).extend(numbers)


def _length(data):
    try:
        return len(data)
    except TypeError:
        return None


def digests(batch) -> list[str]:
    """Return a digest of each example of a batch, which may be a tensor, a list or a dict of them.

    Examples
    --------
    >>> x = torch.arange(4).reshape(2, 2)
    >>> digests({"x": x, "y": x}) == digests([x, x])
    True
    >>> len({*digests(x), *digests(x.flip(0))})
    2
    """
    tensors = list(_tensors(batch))
    if not tensors:
        return []
    size = len(tensors[0])
    rows = [tensor for tensor in tensors if len(tensor) == size]
    return [_digest(tensor[i] for tensor in rows) for i in range(size)]


def _tensors(batch):
    if isinstance(batch, torch.Tensor):
        if batch.dim():
            yield values(batch)
    elif isinstance(batch, dict):
        for value in batch.values():
            yield from _tensors(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from _tensors(value)


def _digest(tensors):
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
