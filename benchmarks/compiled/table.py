"""The table of all pairs, and what it comes to."""

import statistics

from benchmarks.compiled.pairs import GIB

GOAL = 0.2  # beyond this error of the ratio a row has to be explained


def median_error(rows) -> float:
    """Return the median error of the ratio."""
    return statistics.median(abs(row.error) for row in rows)


def largest_error(rows) -> float:
    """Return the error of the ratio that is the farthest from 0, with its sign."""
    return max((row.error for row in rows), key=abs)


def outside(rows) -> list:
    """Return the rows whose ratio is off by more than `GOAL`."""
    return [row for row in rows if abs(row.error) > GOAL]


def summary(rows) -> str:
    """Return a line on the errors of all rows."""
    beyond = "; ".join(f"{row.pair.what} {row.error:+.0%}" for row in outside(rows)) or "none"
    return (
        f"{len(rows)} pairs: error of the ratio {median_error(rows):.1%} in the median, at most "
        f"{largest_error(rows):+.1%}; beyond {GOAL:.0%}: {beyond}"
    )


def table(rows) -> str:
    """Return all rows as lines of cells: ratio, milliseconds and peaks, and what was published."""
    return "\n".join(" | ".join(cells(row)) for row in rows)


def cells(row) -> tuple:
    """Return a row's cells; published values are in brackets."""
    ratio = _both(f"{row.ratio:.2f}", f"{row.published_ratio:.2f}")
    times = [_both(_ms(a), _ms(b)) for a, b in zip(row.seconds, row.pair.seconds, strict=True)]
    peaks = ["", ""]
    if row.pair.peaks:
        peaks = [_both(_gib(a), _gib(b)) for a, b in zip(row.peaks, row.pair.peaks, strict=True)]
    return row.pair.what, ratio, f"{row.error:+.0%}", *times, *peaks


def _both(predicted, published):
    return f"{predicted} ({published})"


def _ms(seconds):
    return f"{seconds * 1e3:,.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.1f}"


def _gib(count):
    return f"{count / GIB:.1f}"
