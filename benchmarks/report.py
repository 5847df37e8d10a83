"""Results as text: tables, and what became slower since a record."""

from benchmarks.cases import BENCHMARKS
from simgpu.units import number, quantity, scale

TOLERANCE = 0.05  # smaller changes are not worth a report, whatever the spread
HEADER = ("what", "median (range)", "against", "times as fast")


def describe(record):
    """Say in one line with which versions, on which commit and when a run was made."""
    names = {"python": "Python", "torch": "torch", "d2l": "d2l", "cuda": "CUDA"}
    found = record.versions
    words = [f"{word} {found[name]}" for name, word in names.items() if found.get(name)]
    state = " with changes" if record.modified else ""
    words += [f"commit {record.commit[:10]}{state}", f"{record.date[:16].replace('T', ' ')} UTC"]
    return "; ".join([*words, f"{record.repetitions} repetitions"])


def spread(side, unit):
    """Write the median, and the range where there is one: ``"5.31 s (5.2 to 5.6)"``."""
    middle = quantity(side.median, unit)
    if len(side.samples) == 1:
        return middle
    factor = 10 ** scale(side.median, unit)[0]  # the median's, so that the three can be compared
    return f"{middle} ({number(side.low / factor)} to {number(side.high / factor)})"


def against(row):
    """Write the peer, or the limit and whether it is kept."""
    if row.limit is not None:
        verdict = "kept" if row.keeps_limit else "exceeded"
        return f"limit {quantity(row.limit, row.unit)}: {verdict}"
    return f"{row.peer.label}: {spread(row.peer, row.unit)}" if row.peer else ""


def ratio(row):
    """Write the ratio and whether it reaches its goal."""
    if row.goal is not None:
        verdict = "reached" if row.ratio >= row.goal else "missed"
        return f"{number(row.ratio)} (goal {number(row.goal)} {verdict})"
    return number(row.ratio) if row.peer else ""


def title(benchmark, write=str):
    """Return a benchmark's name in words; what `write` makes of a name that is not known."""
    return BENCHMARKS[benchmark].title if benchmark in BENCHMARKS else write(benchmark)


def table(rows, write=str, with_title=False):
    """Lay rows out as a Markdown table; where nothing is compared, two columns say everything.

    `write` is applied to what came from the rows.
    """
    lines, shown = [HEADER], 4 if any(row.peer or row.limit for row in rows) else 2
    for row in rows:
        cells = row.case, spread(row.ours, row.unit), against(row), ratio(row)
        case, *rest = map(write, cells)
        lines.append((f"{title(row.benchmark, write)}: {case}" if with_title else case, *rest))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:shown]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)


def section(benchmark, rows, write=str):
    """Return what is to be said about the rows of a benchmark, as blocks of Markdown."""
    about = BENCHMARKS[benchmark].about if benchmark in BENCHMARKS else ""
    notes = dict.fromkeys(row.note for row in rows if row.note)
    blocks = [f"### {title(benchmark, write)}", about, table(rows, write)]
    return [*filter(None, blocks), *(f"Note: {write(note)}." for note in notes)]


def slower(new, old):
    """Return a line per row that became worse than in an old record of the same hardware.

    Worse: its median moved to the bad side by more than either run's range (largest - smallest),
    and by more than `TOLERANCE` of the old median.
    """
    before = {row.key: row.ours for row in old.rows}
    found = []
    for row in new.rows:
        ours, past = row.ours, before.get(row.key)
        if past is None:
            continue
        change = ours.median - past.median
        worse = -change if row.higher_is_better else change
        if worse > max(ours.high - ours.low, past.high - past.low, TOLERANCE * past.median):
            was, now = spread(past, row.unit), spread(ours, row.unit)
            share = f"{change / past.median:+.0%}"
            found.append(f"{' / '.join(row.key)}: was {was}, now {now} ({share})")
    return found
