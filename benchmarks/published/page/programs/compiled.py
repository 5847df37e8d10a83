"""What the page says of pairs: a program that was measured eager and compiled."""

from statistics import median

from benchmarks.compiled import record
from benchmarks.compiled.table import GOAL, cells, largest_error, median_error, outside
from benchmarks.published.shared.markdown import plain, table
from simgpu.hardware import host

HEAD = ("program", "gain", "error", "eager, ms", "compiled, ms", "eager, GiB", "compiled, GiB")
SHORT, LONG = 256, 1024  # tokens of the passes of the course's models whose ratio is far off
FITTED = "--size small --seq 128"  # the passes to which the host's seconds were fitted
HOST_MATTERS = 1.1  # a stated host matters for a pass that it makes longer by this factor
# Raschka's book: tokens a second of the compiled step with 50,304 tokens in place of 50,257.
BOOK, PADDED = "book", 127_345


def pairs_table() -> str:
    """Return the table of all pairs, each with its source."""
    return table(HEAD, [_line(row) for row in record.read()])


def _line(row):
    what, *values = cells(row)
    return f"{plain(what)} {{cite}}`{row.pair.key}`", *values


def numbers() -> dict:
    """Return ``{name: number}`` for the page's text."""
    rows = record.read()
    beyond = outside(rows)
    short = [row for row in beyond if _tokens(row) <= SHORT]
    times = [row.pair.seconds[0] / row.seconds[0] for row in rows]
    (book,) = (row.pair for row in rows if row.pair.program == BOOK)
    long = [row for row in beyond if row not in short]
    missing = [_missing(row, 1) / row.pair.seconds[1] for row in long]
    return {
        "compiled_rows": len(rows),
        "compiled_median": median_error(rows),
        "compiled_worst": abs(largest_error(rows)),
        "compiled_outside": len(beyond),
        "compiled_goal": GOAL,
        "compiled_least": min(times),
        "compiled_most": max(times),
        "compiled_short": SHORT,
        "compiled_host_low": min(row.ratio for row in short),
        "compiled_host_high": max(row.ratio for row in short),
        "compiled_host_least": min(row.published_ratio for row in short),
        "compiled_host_most": max(row.published_ratio for row in short),
        "compiled_long": f"{LONG:,}",
        "compiled_missing_low": min(missing),
        "compiled_missing_high": max(missing),
        "compiled_shared": min(_missing(row, 0) / _missing(row, 1) for row in long),
        "compiled_odd": book.seconds[1] * 1e3,
        "compiled_padded": book.tokens / PADDED * 1e3,
        **_host_numbers(rows),
    }


def _host_numbers(rows):
    changed = [row for row in rows if row.hosted and row.hosted > HOST_MATTERS * row.seconds[0]]
    others = [row for row in changed if not row.pair.options.startswith(FITTED)]
    before = [abs(row.seconds[0] / row.pair.seconds[0] - 1) for row in others]
    after = [abs(row.hosted / row.pair.seconds[0] - 1) for row in others]
    forward, backward = (1e6 * seconds for seconds in host.SLOW)
    return {
        "host_forward": forward,
        "host_backward": backward,
        "host_option": host.option(host.SLOW),
        "host_rows": len(others),
        "host_others": sum(row.hosted is not None for row in rows) - (len(changed) - len(others)),
        "host_before": median(before),
        "host_median": median(after),
        "host_worst": max(after),
    }


def claims() -> dict:
    """Return what the page says of pairs in words, and whether it holds."""
    rows = record.read()
    beyond, hosted = outside(rows), _host_numbers(rows)
    long = [row for row in beyond if _tokens(row) == LONG]
    return {
        "a stated host brings most passes that it changes near": hosted["host_rows"] > 5
        and hosted["host_median"] < 0.05 < 0.3 < hosted["host_before"],
        "compiled: only short and long forward passes of the course are far off": all(
            "--forward" in row.pair.options and (_tokens(row) <= SHORT or row in long)
            for row in beyond
        ),
        "compiled: short passes gain more than predicted": all(
            row.error < 0 for row in beyond if row not in long
        ),
        "compiled: short passes take as long as those of half the length": _is_flat(rows),
        "compiled: long passes gain less, and most of what is missing is missing eager, too": all(
            row.error > 0 and 0.5 < _missing(row, 0) / _missing(row, 1) < 1 for row in long
        ),
    }


def _tokens(row):
    words = row.pair.options.split()
    return int(words[words.index("--seq") + 1]) if "--seq" in words else 0


def _missing(row, place):
    """Return the seconds by which a step is predicted too short, eager (0) or compiled (1)."""
    return row.pair.seconds[place] - row.seconds[place]


def _is_flat(rows):
    """Return whether the far passes of `SHORT` tokens took as long as those of half as many."""
    times = {row.pair.options: row.pair.seconds for row in rows}
    far = [row.pair.options for row in outside(rows) if _tokens(row) == SHORT]
    halves = [options.replace(f"--seq {SHORT}", f"--seq {SHORT // 2}") for options in far]
    return all(
        abs(a / b - 1) < 0.06
        for options, half in zip(far, halves, strict=True)
        for a, b in zip(times[options], times[half], strict=True)
    )
