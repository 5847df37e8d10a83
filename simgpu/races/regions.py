"""Which bytes of a piece of memory a tensor covers, and whether two tensors share any."""

from functools import lru_cache

MAX_REMEMBERED = 20_000  # regions, and pairs of them, that are not worked out again


@lru_cache(MAX_REMEMBERED)
def region(offset: int, shape: tuple, strides: tuple, itemsize: int) -> tuple:
    """Return the bytes of a strided tensor as ``(start, steps)``.

    Byte ``start + sum(step * i)`` belongs to it for all ``0 <= i <= count``, over the pairs
    ``(step, count)`` of `steps`. Dimensions that lie one behind the other are joined, so that a
    contiguous tensor has the one pair ``(1, bytes - 1)``, however it is shaped.

    Parameters
    ----------
    offset : int
        Where the tensor starts, in elements.
    shape, strides : tuple of int
        As of a tensor; no dimension is empty.
    itemsize : int
        Bytes of an element.
    """
    dims = [(stride * itemsize, n - 1) for stride, n in zip(strides, shape, strict=True)]
    steps = [(1, itemsize - 1)]
    for step, count in sorted((step, count) for step, count in dims if step and count):
        inner, inner_count = steps[-1]
        if inner * (inner_count + 1) == step:
            steps[-1] = inner, (inner_count + 1) * (count + 1) - 1
        else:
            steps.append((step, count))
    return offset * itemsize, tuple(steps)


def contains(outer: tuple, inner: tuple) -> bool:
    """Whether all bytes of `inner` are sure to be in `outer`: in a contiguous one, or in itself."""
    start, steps = outer
    if len(steps) > 1:
        return outer == inner
    last = inner[0] + sum(step * count for step, count in inner[1])
    return start <= inner[0] and last <= start + steps[0][1]


@lru_cache(MAX_REMEMBERED)
def overlap(one: tuple, other: tuple) -> bool:
    """Whether two regions share a byte: exactly, also where one lies in the gaps of the other."""
    # start + sum(step * i) = other_start + sum(other_step * j) for some i and j. With count - j in
    # the place of j, all signs are equal: can some of the steps add up to the distance?
    counts = {}
    distance = other[0] - one[0]
    for step, count in (*one[1], *other[1]):
        counts[step] = counts.get(step, 0) + count
    distance += sum(step * count for step, count in other[1])
    return _adds_up(tuple(sorted(counts.items(), reverse=True)), distance)


def _adds_up(steps, total):
    """Whether ``sum(step * i)`` with ``0 <= i <= count`` can be `total`; the largest step first."""
    if total <= 0 or not steps:
        return total == 0
    (step, count), rest = steps[0], steps[1:]
    reach = sum(step * count for step, count in rest)
    fewest = max(0, -(-(total - reach) // step))
    return any(
        _adds_up(rest, total - step * i) for i in range(fewest, min(count, total // step) + 1)
    )
