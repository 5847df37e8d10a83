"""Which bytes of a piece of memory a tensor covers, and whether two tensors overlap."""

from functools import lru_cache

MAX_REMEMBERED = 20_000  # entries of each cache: regions, and pairs of regions


@lru_cache(MAX_REMEMBERED)
def region(offset: int, shape: tuple, strides: tuple, itemsize: int) -> tuple:
    """Return the bytes of a strided tensor as ``(start, steps)``.

    The tensor covers byte ``start + sum(step * i)`` for all ``0 <= i <= count``, over the pairs
    ``(step, count)`` of `steps`. Adjacent dimensions are merged, so a contiguous tensor of any
    shape has the single pair ``(1, bytes - 1)``.

    Parameters
    ----------
    offset : int
        Where the tensor starts, in elements.
    shape, strides : tuple of int
        Those of the tensor; no dimension is empty.
    itemsize : int
        Bytes per element.
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
    """Return whether all bytes of `inner` are surely in `outer`: contiguous, or equal to it."""
    start, steps = outer
    if len(steps) > 1:
        return outer == inner
    last = inner[0] + sum(step * count for step, count in inner[1])
    return start <= inner[0] and last <= start + steps[0][1]


@lru_cache(MAX_REMEMBERED)
def overlap(one: tuple, other: tuple) -> bool:
    """Return whether two regions share a byte; exact, also if one lies in the gaps of the other."""
    # Does start + sum(step * i) = other_start + sum(other_step * j) have a solution? Substituting
    # count - j for j makes all signs equal: can some of the steps add up to the distance?
    counts = {}
    distance = other[0] - one[0]
    for step, count in (*one[1], *other[1]):
        counts[step] = counts.get(step, 0) + count
    distance += sum(step * count for step, count in other[1])
    return _adds_up(tuple(sorted(counts.items(), reverse=True)), distance)


def _adds_up(steps, total):
    """Return whether ``sum(step * i)``, ``0 <= i <= count``, can be `total`; largest step first."""
    if total <= 0 or not steps:
        return total == 0
    (step, count), rest = steps[0], steps[1:]
    reach = sum(step * count for step, count in rest)
    fewest = max(0, -(-(total - reach) // step))
    return any(
        _adds_up(rest, total - step * i) for i in range(fewest, min(count, total // step) + 1)
    )
