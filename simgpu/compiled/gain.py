"""What the launcher says about compiled code: what it gained, and what broke its graphs."""

from collections import Counter

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
    if not compiled.used:
        return []
    return [compiled.note, *_gain(compiled.records, steps), *_breaks(compiled.records)]


def _gain(records, steps):
    before, after = total(records)
    if not after.kernels:
        return
    made = steps.count() or 1
    each = "a step" if steps.count() else "in the whole run"
    times = [quantity(cost.device / made, "s") for cost in (before, after)]
    kernels = [f"{cost.kernels / made:,.0f}" for cost in (before, after)]
    launches = [quantity(cost.host / made, "s") for cost in (before, after)]
    yield (
        f"compiled: {before.seconds / after.seconds:.2f} times as fast as eager code; {each} and "
        f"rank {kernels[0]} kernels of {times[0]} became {kernels[1]} of {times[1]}, and "
        f"{launches[0]} of launches {launches[1]}"
    )


def _breaks(records):
    found = sum((record.breaks for record in records), Counter())
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
