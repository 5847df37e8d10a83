"""What the launcher says about compiled code: what it gained, and what broke its graphs."""

from collections import Counter
from functools import reduce
from operator import or_

from simgpu.compiled.record import total
from simgpu.units import quantity

MOST_BREAKS = 3  # lines that are named


def compiled_notes(compiled, steps) -> list[str]:
    """Return the lines of the summary about what a script has compiled.

    Parameters
    ----------
    compiled : Compiled
    steps : Steps
    """
    return [*compiled.notes, *_gain(compiled.records, steps), *_breaks(compiled.records)]


def has_compiled(compiled) -> bool:
    """Return whether a script has run compiled code."""
    return any(record.plans for record in compiled.records)


def _gain(records, steps):
    before, after = total(records)
    if not after.kernels:
        return
    made = steps.count() or 1
    whose = "a step's" if steps.count() else "its"
    (times, own_times), (launches, own_launches) = (
        [quantity(seconds / made, "s") for seconds in pair]
        for pair in ((before.device, after.device), (before.host, after.host))
    )
    yield (
        f"compiled: {before.seconds / after.seconds:.2f} times as fast as eager code (--eager); "
        f"{after.kernels / made:,.0f} of {whose} kernels on a rank are compiled, instead of "
        f"{before.kernels / made:,.0f} eager ones, which take {own_times} instead of {times}, and "
        f"their launches {own_launches} instead of {launches}"
    )


def _breaks(records):
    each = {}
    for record in records:
        each.setdefault(record.device, Counter()).update(record.breaks)
    found = reduce(or_, each.values(), Counter())  # of the rank with the most
    if not found:
        return
    lines = [
        f"{line} ({'once' if count == 1 else f'{count} times'})"
        for line, count in found.most_common(MOST_BREAKS)
    ]
    more = len(found) - MOST_BREAKS
    yield (
        f"graph breaks, which compiled code does not fuse across: {', '.join(lines)}"
        + (f", and {more} more line{'s' * (more > 1)}" if more > 0 else "")
    )
