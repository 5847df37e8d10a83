"""The tables that ``make bench`` prints: medians and ranges beside what they are compared with."""

from benchmarks.cases import BENCHMARKS
from benchmarks.measure import Side
from simgpu.units import number, quantity, scale


def section(name, rows):
    """Return the title of a benchmark, what it is about, its rows, and what is to be noted."""
    known = BENCHMARKS[name]
    notes = dict.fromkeys(row.note for row in rows if row.note)
    blocks = [f"## {known.title}", known.about, _table(rows), *(f"Note: {n}." for n in notes)]
    return "\n\n".join(blocks)


def _table(rows):
    """Lay rows out; where nothing is compared, two columns say everything."""
    compared = any(row.peer or row.limit for row in rows)
    lines = [("what", "median (range)", "against", "speedup (range)")]
    lines += [(row.case, spread(row.ours, row.unit), _against(row), _speedup(row)) for row in rows]
    lines = [line if compared else line[:2] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)


def _against(row):
    """Write the peer, or the limit and whether it is kept."""
    if row.limit is not None:
        verdict = "kept" if row.keeps_limit else "exceeded"
        return f"limit {quantity(row.limit, row.unit)}: {verdict}"
    return f"{row.peer.label}: {spread(row.peer, row.unit)}" if row.peer else ""


def _speedup(row):
    """Write the ratio to the peer and whether it reaches its goal."""
    if not row.peer:
        return ""
    text = spread(Side("speedup", row.ratios), unit="")
    if row.goal is None:
        return text
    return f"{text}, goal {number(row.goal)} {'reached' if row.ratio >= row.goal else 'missed'}"


def spread(side, unit):
    """Write the median, and the range where there is one: ``"5.31 s (5.2 to 5.6)"``."""
    middle = quantity(side.median, unit).strip()
    if len(side.samples) == 1:
        return middle
    factor = 10 ** scale(side.median, unit)[0]  # the median's, so that the three can be compared
    return f"{middle} ({number(side.low / factor)} to {number(side.high / factor)})"
