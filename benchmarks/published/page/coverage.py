"""What the page says about the tables as a whole: steps by GPU, rows refused, the last edition."""

import statistics

from benchmarks.page import plain
from benchmarks.published import orders, own_script
from benchmarks.published.page import editions, summary
from benchmarks.published.page.blocks import table
from benchmarks.published.tables import has_experts
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
    """Return the table of steps to which nothing was fitted, by GPU and number of nodes."""
    head = ("steps on", "published", "times the prediction: median", "nine of ten", "all")
    lines = [
        (words, len(taken), f"{statistics.median(taken):.2f}",
         span(*orders.nine_of_ten(taken)) if len(taken) >= 10 else "too few",
         span(min(taken), max(taken)))
        for words, taken in _groups(tables).items()
    ]  # fmt: skip
    return table(head, lines)


def _groups(tables):
    """Return ``{words: multiples of the predicted time that the real steps took}``."""
    groups = {}
    for one in summary.programs(tables):
        for p in one.predictions:
            if p.measured is not None and p.context == 1 and not p.fitted:
                groups.setdefault(_group(one.family, p), []).append(1 / p.ratio)
    found = {words: groups[words] for words in sorted(groups)}
    rates = zip(own_script.ROWS, own_script.read(), strict=True)
    found["A100s and H100s, one node, a user's script"] = [
        rate / row.rate for row, (rate, *_) in rates
    ]
    return found


def _group(family, p):
    gpu, *wires = p.preset.split("/")
    if has_experts(family, p):
        return f"{_name(gpu)}, mixtures of experts"
    return f"{_name(gpu)}, {'several nodes' if len(wires) > 1 else 'one node'}"


def _name(gpu):
    return f"{gpu.partition('-')[0].upper()}s"


def span(low, high) -> str:
    """Write a range of multiples."""
    return f"{low:.2f} to {high:.2f}"
