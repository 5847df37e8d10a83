"""Tables and figures of the page, as Markdown."""

import math
import statistics

from benchmarks.published import orders, tables
from benchmarks.published.families import collectives, vtrain
from benchmarks.published.families.collectives import num_bytes
from benchmarks.published.page import constants, drawings, findings, summary
from benchmarks.published.shared import rows
from benchmarks.published.shared.markdown import plain, rows_of, table
from benchmarks.published.study import assumed, eight_bits
from simgpu.hardware import assumptions
from simgpu.network.bus_bandwidth import bus_factor
from simgpu.units import number, quantity, size

# What a table calls its source, and the reference for it.
SOURCES = {"stas00 network": "bekman2024machine", "NVIDIA/nccl issue 812": "nvidia2023issue"}


def _bandwidth(row, seconds):
    name = collectives.NAMES.get(row["collective"], row["collective"])
    return bus_factor(name, int(row["gpus"])) * num_bytes(row) / seconds


def _curve(label, pairs):
    """Return the `Curve` of rows that differ in size only."""
    row = pairs[0][0]
    published = {num_bytes(row): _bandwidth(row, p.measured) for row, p in pairs}
    predicted = {}
    for x in sorted(published):
        sized = {**row, "bytes": str(x)}
        predicted[x] = _bandwidth(sized, collectives.predict(sized).predicted)
    return drawings.Curve(label, predicted, published)


def sweep_curve(found):
    """Return the curve of the one-node system with the most sizes."""
    swept = findings.sweep(found)
    row, p = swept[0]
    return _curve(f"{p.system}, {row['gpus']} GPUs", swept)


def swept_table():
    """Return a table of the sweeps that chose constants: by place and size of the message."""
    head = ("among GPUs of", "size", "rows", "median error", "lowest ratio", "highest ratio")
    lines = []
    for (place, name), group in findings.swept_classes().items():
        error = statistics.median(abs(ratio - 1) for *_, ratio in group)
        ends = (min(group, key=lambda one: one[2]), max(group, key=lambda one: one[2]))
        lines.append((findings.PLACES[place], findings.CLASSES[name], len(group),
                      f"{error:.0%}", *(_swept(*one) for one in ends)))  # fmt: skip
    return table(head, lines)


def _swept(row, num_bytes, ratio):
    kind = row["collective"].replace("_", "-")
    return f"{ratio:.2f} ({kind} of {size(num_bytes)}, {plain(row['system'])})"


def message_table(pairs, found):
    """Return a table of the messages of one system; `found` are all messages of its table."""
    head = ("all-reduce of", "published", "predicted", "ratio")
    lines = [(size(num_bytes(row)), *_values(row, p)) for row, p in pairs]
    return f"{_about(pairs, found)}\n\n{table(head, lines)}"


def node_table(pairs):
    """Return a table of the messages over several nodes."""
    head = ("system, algorithm", "all-reduce of", "published", "predicted", "ratio")
    lines = []
    for row, p in pairs:
        system = f"{p.system}, {row['gpus']} GPUs, {row['algorithm'] or 'algorithm not said'}"
        large = " (“large”)" if row["bytes"] == "large" else ""
        lines.append((plain(system), size(num_bytes(row)) + large, *_values(row, p)))
    return table(head, lines)


def _about(pairs, found):
    systems = {p.system: p.preset for _, p in pairs}
    words = (f"{plain(name)}, simulated as {plain(preset)}" for name, preset in systems.items())
    return f"{'; '.join(words)}. Source: {_source(pairs, found)}."


def _values(row, p):
    """Write a row in the unit that was published, its time or its bus bandwidth, and the ratio."""
    values, unit = [p.measured, p.predicted], "s" if row["time_us"] else "B/s"
    if unit == "B/s":
        values = [_bandwidth(row, seconds) for seconds in values]
    return (*(quantity(value, unit) for value in values), f"{p.ratio:.2f}")


def _source(pairs, found):
    """Name the sources of rows; "same" is that of the row before, in the whole table."""
    names, last = {}, ""
    for row, _ in found:
        last = row["source"] if row["source"] != "same" else last
        names[id(row)] = last
    used = dict.fromkeys(names[id(row)] for row, _ in pairs)
    return "; ".join(f"{plain(name)}{_cite(name)}" for name in used)


def _cite(name):
    keys = [key for start, key in SOURCES.items() if name.startswith(start)]
    return f" {{cite}}`{keys[0]}`" if keys else ""


def _groups(found, *columns):
    groups = {}
    for row, p in found:
        groups.setdefault(tuple(rows.whole(row, column) for column in columns), []).append(p)
    return dict(sorted(groups.items()))


def step_groups(found):
    """Return vTrain's predictions by tensor parallelism, for the scatter."""
    groups = _groups(found, "tensor parallelism")
    return {f"tensor parallelism over {k}": ps for (k,), ps in groups.items()}


def step_table(found):
    """Return the lines of a table of ratios by hidden size and tensor parallelism."""
    lines = []
    for key, group in _groups(found, "hidden size", "tensor parallelism").items():
        ratios = [p.ratio for p in group]
        values = (statistics.median(ratios), min(ratios), max(ratios))
        lines.append((*key, len(group), *(f"{value:.2f}" for value in values)))
    return rows_of(lines)


def order_table(one, more):
    """Return the table of how often the order of two splits is right."""
    head = ("predicted difference", "one node", "pairs", "several nodes", "pairs")
    lines = []
    one = orders.not_fitted(p for _, p in one)
    places = (orders.CLASSES, orders.orders(one), orders.orders([p for _, p in more]))
    for (low, high), (n, share), (n_more, share_more) in zip(*places, strict=True):
        words = f"{100 * low:.0f} to {100 * high:.0f}%" if high < 1 else f"over {100 * low:.0f}%"
        lines.append((words, _share(share), n, _share(share_more), n_more))
    return table(head, lines)


def _share(share):
    if math.isnan(share):
        return "no pair"
    return f"right in {100 * share:.1f}%" if 0.99 < share < 1 else f"right in {100 * share:.0f}%"


def summary_table(found):
    """Return the table with a line for each of the tables."""
    head = ("table", "rows", "not predicted", "median error", "after one point", "order of rows",
            "order of splits", "memory")  # fmt: skip
    return table(head, summary.lines(found))


def paper_table(found):
    """Return the table of memory by a paper's formula, beside what is simulated."""
    return table(("model", "what saves memory", "formula", "simulated"), summary.paper_lines(found))


def eight_table():
    """Return the table of what products of 8-bit numbers gain, by width and number of tokens."""
    found = eight_bits.read()["by_width"]
    counts = sorted({one["tokens"] for one in found})
    gains = {(one["width"], one["tokens"]): one["gain"] for one in found}
    head = ("width", *(f"{count:,} tokens" for count in counts))
    widths = sorted({one["width"] for one in found})
    return table(head, [(f"{w:,}", *(f"{gains[w, n]:.2f}" for n in counts)) for w in widths])


def constant_table():
    """Return the table of all constants that no data sheet gives."""
    head = ("constant", "value", "kind", "why, or fitted to what", "varied", "in the code")
    return table(head, constants.constant_table(assumed.varied()))


def program_rows(found):
    """Return every row that ran as a program, in a fold for each table."""
    parts = []
    for one in summary.programs(found):
        about = f"{len(one.predictions)} rows: {one.title}"
        fitted = tables.FAMILIES[one.family].FITTED
        parts.append(
            f"::::{{dropdown}} {about.partition(' {cite}')[0]}\n"
            f"Source: {one.title}. Fitted: {plain(fitted)}.\n\n"
            f"{summary.rows(one, table)}\n::::"
        )
    return "\n\n".join(parts)


def launch_table(found):
    """Return the conclusions by launch overhead; `found` is ``{Conclusion: numbers}``."""
    marks = {assumptions.LAUNCH_OVERHEAD: " (preset)", vtrain.LAUNCH: " (fitted)"}
    head = [f"{quantity(value, 's')}{marks.get(value, '')}" for value in assumed.LAUNCHES]
    lines = [
        (_link(c), *(_bold(number(v), c.holds(v)) for v in values)) for c, values in found.items()
    ]
    return table(("", *head), lines)


def assumption_table(found):
    """Return the conclusions by assumption: the lowest and highest of each ``[numbers]``.

    A cell is empty where nothing changes.
    """
    head = ("", "preset", *(a.words for a in assumed.ASSUMPTIONS))
    lines = []
    for c, columns in found.items():
        cells = (_bold(_range(values), all(map(c.holds, values))) for values in columns)
        lines.append((_link(c), number(columns[0][0]), *cells))
    return table(head, lines)


def range_table(found):
    """Return the conclusions by their extremes: ``{Conclusion: [numbers by assumption]}``."""
    head = ("", "preset", "lowest", "highest", "fails for some value of")
    lines = []
    for c, columns in found.items():
        ends = []
        for choose in (min, max):
            place = choose(range(len(columns)), key=lambda i, choose=choose: choose(columns[i]))
            ends.append(_extreme(choose(columns[place]), columns[0][0], assumed.ASSUMPTIONS[place]))
        fails = [
            _name(a) for a, values in zip(assumed.ASSUMPTIONS, columns, strict=False)
            if not all(map(c.holds, values))
        ]  # fmt: skip
        words = f"**{', '.join(fails)}**" if fails else "none"
        lines.append((_link(c), number(columns[0][0]), *ends, words))
    return table(head, lines)


def _extreme(value, preset, assumption):
    if f"{value:.2f}" == f"{preset:.2f}":
        return f"{value:.2f}"
    return f"{value:.2f} ({_name(assumption)})"


def _name(assumption):
    return assumption.words.partition(":")[0]


def _link(conclusion):
    return f"[{conclusion.words}]({conclusion.chapter}.ipynb)"


def _bold(text, holds):
    return text if holds or not text else f"**{text}**"


def _range(values):
    low, high = (f"{value:.2f}" for value in (min(values), max(values)))
    return "" if low == high else f"{low} to {high}"
