"""What the page says about all tables: kinds of steps, rows refused, the last edition."""

from benchmarks.published import bands, own_script
from benchmarks.published.page import editions, summary
from benchmarks.published.shared.markdown import plain, table
from simgpu.bands.kinds import ENOUGH, LAUNCHES
from simgpu.units import number, size


def refused(tables):
    """Say which measured rows were not predicted, and why."""
    tables = summary.measured(tables)
    total = sum(len(t.rows) + len(t.refused) for t in tables)
    found = {}
    for t in tables:
        for line, reason in t.refused:
            found.setdefault((t.family, plain(reason)), []).append(line)
    lines = [(name, _runs(places), reason) for (name, reason), places in found.items()]
    if not lines:
        return f"All {total:,} rows of the tables that we took have a prediction. "
    count = sum(len(places) for places in found.values())
    about = f"{count} of {total:,} rows have no prediction:"
    return f"{about}\n\n{table(('table', 'lines', 'why'), lines)}\n\n"


def _runs(numbers):
    """Write numbers in order, those that follow each other as a range.

    Examples
    --------
    >>> _runs([2, 3, 4, 9])
    '2 to 4, 9'
    """
    runs = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in runs)


def script_table():
    """Return the table of published rows that ran from a user's script."""
    head = ("8 GPUs", "tokens a sequence", "micro-batches", "memory, as simulated",
            "tokens/s a GPU, published", "simulated", "ratio of times")  # fmt: skip
    lines = []
    for row, (rate, reserved, memory) in zip(own_script.ROWS, own_script.read(), strict=True):
        fits = "fits" if reserved <= memory else "does not fit"
        lines.append((
            f"{row.gpu.upper()} {row.memory}", f"{row.seq:,}", f"{row.count} x {row.micro}",
            f"{size(reserved)} of {size(memory)}, {fits}", number(row.rate), number(rate),
            f"{row.rate / rate:.2f}",
        ))  # fmt: skip
    return table(head, lines)


def edition_table(found):
    """Return the table of the last edition's median errors beside this one's."""
    return table(("table", "last edition", "now", "why it got worse"), editions.lines(found))


def fit_table(found):
    """Return the table of what was said to fit in memory beside what really did."""
    lines = summary.fit_lines(found)
    total = [sum(column) for column in zip(*(line[1:] for line in lines), strict=True)]
    head = ("table", "ran, said to fit", "ran, said not to fit", "out of memory, said not to fit",
            "out of memory, said to fit")  # fmt: skip
    return table(head, [*lines, ("all", *(total or [0] * 4))])


def steps_table(tables):
    """Return the table of kinds of steps, each with the band that is printed for it."""
    head = ("kind of step", "published", "sources", "times the prediction: median", "all",
            "to expect", "inside bands of the other sources")  # fmt: skip
    return table(head, map(_kind_line, bands.checks(bands.rows(tables))))


def _kind_line(check):
    band = check.band
    judged = f"{check.inside} of {check.judged}" if check.judged else ""
    return (
        str(band.kind), band.rows, band.sources, f"{band.median:.2f}",
        span(check.least, check.most), span(band.low, band.high) if band.is_known else "not known",
        judged,
    )  # fmt: skip


def kind_numbers(tables):
    """Return the numbers about kinds for the page's text."""
    found = bands.rows(tables)
    wider = bands.widening(found)
    launches = [row.multiple for row in found if row.kind.limit == "launches"]
    return {
        "kinds_enough": ENOUGH,
        "kinds_launches": LAUNCHES,
        "kinds_launches_most": max(launches, default=float("nan")),
        "kinds_wider": wider.several,
        "kinds_wider_one": wider.one,
    }


def span(low, high) -> str:
    """Write a range of multiples."""
    return f"{low:.2f} to {high:.2f}"
