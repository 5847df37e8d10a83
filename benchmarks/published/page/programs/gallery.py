"""What the page says of the gallery: a table for each program, and what it comes to."""

from itertools import pairwise
from statistics import median

from benchmarks.compiled import pairs
from benchmarks.gallery import record
from benchmarks.published.shared.markdown import plain, table
from simgpu.bands.find import find_band

GIB = 2**30
HEAD = (
    "run",
    "options (of a change: those added)",
    "published",
    "simulated",
    "ratio",
    "GiB published",
    "GiB simulated",
)
CHANGED = 0.1  # a rung changed a step if it took less or more by this share


def tables() -> str:
    """Return a table for each program, with the sources."""
    parts = []
    for rows in record.by_program(record.read()):
        first = rows[0].run
        befores = [None, *(row.run for row in rows)]
        lines = [_cells(row, before) for row, before in zip(rows, befores, strict=False)]
        command = f"`-m benchmarks.compiled.programs.{first.program}`"
        parts.append(f"{command} {{cite}}`{first.key}`\n\n{table(HEAD, lines)}")
    return "\n\n".join(parts)


def _cells(row, before):
    run = row.run
    peaks = (f"{run.gib:.1f}", f"{row.peak / GIB:.1f}") if run.memory else ("", "")
    times = (_ms(run.seconds), _ms(row.seconds), f"{1 / row.ratio:.2f}")
    return plain(run.what), f"`{_added(run, before)}`", *times, *peaks


def _added(run, before):
    """Return what the command has more than the one before, or all of it if it lacks something."""
    if before and run.launch == before.launch and run.options.startswith(before.options):
        return run.options.removeprefix(before.options).strip()
    if before and run.options == before.options and run.launch.startswith(before.launch):
        return run.launch.removeprefix(before.launch).strip()
    return f"{run.launch} … {run.options}".strip(" …")


def _ms(seconds):
    return f"{seconds * 1e3:,.0f} ms"


def numbers() -> dict:
    """Return ``{name: number}`` for the page's text."""
    rows = record.read()
    ratios = [row.ratio for row in rows]
    peaks = [_memory_error(row) for row in rows if row.run.memory]
    return {
        "gallery_rows": len(rows),
        "gallery_least": min(ratios),
        "gallery_most": max(ratios),
        "gallery_median": median(ratios),
        "gallery_changed": CHANGED,
        "gallery_judged": len(_judged(rows)),
        "gallery_inside": sum(low <= ratio <= high for ratio, low, high in _judged(rows)),
        "gallery_peaks": len(peaks),
        "gallery_peak_median": median(peaks),
        "gallery_peak_worst": max(peaks),
    }


def _judged(rows):
    """Return (ratio, band's low, high) of the runs whose kind has a band that they did not make."""
    made = {took for pair in pairs.read() for took in pair.seconds}
    found = [(row, find_band(row.kind)) for row in rows if row.run.seconds not in made]
    return [(row.ratio, *band.span) for row, band in found if band and band.span]


def _memory_error(row):
    return abs(row.peak / GIB / row.run.gib - 1)


def claims() -> dict:
    """Return what the page says of the gallery in words, and whether it holds."""
    rows = record.read()
    steps = [pair for group in record.by_program(rows) for pair in pairwise(group) if _alike(*pair)]
    changes = [(b.run.seconds / a.run.seconds, b.seconds / a.seconds) for a, b in steps]
    large = [change for change in changes if abs(change[0] - 1) > CHANGED]
    return {
        "gallery: the large changes go the way that they went": len(large) > 5
        and all((published > 1) == (simulated > 1) for published, simulated in large),
        "gallery: runs outside their bands took longer": all(
            ratio >= low for ratio, low, _ in _judged(rows)
        ),
        "gallery: most peaks are within a hundredth": _median_peak(rows) < 0.01,
    }


def _alike(a, b):
    """Return whether two runs have as many tokens on as many GPUs."""
    return a.run.tokens == b.run.tokens and a.run.launch == b.run.launch


def _median_peak(rows):
    return median(_memory_error(row) for row in rows if row.run.memory)
