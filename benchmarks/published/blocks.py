"""Tables and figures of the page, as Markdown."""

import statistics

from benchmarks.page import plain
from benchmarks.published import collectives, drawings, findings, rows
from benchmarks.published.collectives import num_bytes
from d2lmini.sim.hardware.bus_bandwidth import bus_factor
from d2lmini.units import number, quantity, size

SIZES = [2**power for power in range(15, 35)]
# What a table calls its source, and the reference for it.
SOURCES = {"stas00 network": "bekman2024machine", "NVIDIA/nccl issue 812": "nvidia2023issue"}


def table(head, lines):
    """Lay out cells as Markdown; every text must be `plain` already."""
    parts = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(map(str, part))} |" for part in parts)


def figure(name, alt, caption):
    """Return the directive for a figure in img/."""
    return f":::{{figure}} img/{name}\n:alt: {plain(alt)}\n\n{plain(caption)}\n:::"


def _bandwidth(row, seconds):
    name = collectives.NAMES.get(row["collective"], row["collective"])
    return bus_factor(name, int(row["gpus"])) * num_bytes(row) / seconds


def _curve(label, pairs, sizes):
    """Return the `Curve` of rows that differ in size only: predicted for all of the sizes."""
    row = pairs[0][0]
    published = {num_bytes(row): _bandwidth(row, p.measured) for row, p in pairs}
    predicted = {}
    for x in sorted({*sizes, *published}):
        sized = {**row, "bytes": str(x)}
        predicted[x] = _bandwidth(sized, collectives.predict(sized).predicted)
    return drawings.Curve(label, predicted, published)


def sweep_curve(found):
    """Return the curve of the one-node system with the most sizes."""
    swept = findings.sweep(found)
    row, p = swept[0]
    return _curve(f"{p.system}, {row['gpus']} GPUs", swept, [])


def node_curves(found):
    """Return a curve for each system and algorithm over several nodes."""
    groups = {}
    for row, p in findings.several_nodes(found):
        label = f"{p.system}{', ' + row['algorithm'] if row['algorithm'] else ''}"
        groups.setdefault((label, row["collective"], row["gpus"]), []).append((row, p))
    return [_curve(key[0], pairs, SIZES) for key, pairs in groups.items()]


def collectives_tables(found):
    """Return a table for each system with all its rows."""
    blocks = []
    for system, pairs in findings.by_system(found).items():
        presets = ", ".join(dict.fromkeys(p.preset for _, p in pairs))
        blocks += [
            f"**{plain(system)}**, simulated as {plain(presets)}. Source: {_source(pairs, found)}.",
            table(_HEAD, [_line(row, p) for row, p in pairs]),
        ]
    return "\n\n".join(blocks)


_HEAD = ("what", "published", "predicted", "ratio", "algorithm, published", "predicted")


def _line(row, p):
    """Write a row in the unit that was published: its time or its bus bandwidth."""
    words = [f"{row['collective']} {size(num_bytes(row))}", f"{row['gpus']} GPUs"]
    words += [f"{row['nodes']} nodes"] if row["nodes"] != "1" else []
    words += ["“large”"] if row["bytes"] == "large" else []
    values = [p.measured, p.predicted]
    unit = "s" if row["time_us"] else "B/s"
    if unit == "B/s":
        values = [_bandwidth(row, seconds) for seconds in values]
    return (
        plain(", ".join(words)), *(quantity(value, unit) for value in values), f"{p.ratio:.2f}",
        plain(row["algorithm"] or "not said"), plain(p.what.rpartition(": ")[2]),
    )  # fmt: skip


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
    """Return the ratios by hidden size and tensor parallelism."""
    head = ("hidden size", "tensor parallelism", "rows", "median ratio", "lowest", "highest")
    lines = []
    for key, group in _groups(found, "hidden size", "tensor parallelism").items():
        ratios = [p.ratio for p in group]
        values = (statistics.median(ratios), min(ratios), max(ratios))
        lines.append((*key, len(group), *(f"{value:.2f}" for value in values)))
    return table(head, lines)


def step_sample(found, count=5):
    """Return rows at equal distances in the order of their ratios."""
    order = sorted((p for _, p in found), key=lambda p: (p.ratio, p.what))
    places = dict.fromkeys(round(i * (len(order) - 1) / (count - 1)) for i in range(count))
    lines = [
        (plain(p.what), quantity(p.measured, "s"), quantity(p.predicted, "s"), f"{p.ratio:.2f}")
        for p in (order[place] for place in places)
    ]
    return table(("configuration", "published", "predicted", "ratio"), lines)


def refused(tables):
    """Say which rows were not predicted, and why."""
    total = sum(len(t.rows) + len(t.refused) for t in tables)
    lines = [(t.family, line, plain(reason)) for t in tables for line, reason in t.refused]
    if not lines:
        return f"There are none: each of the {total:,} rows of these tables has a prediction."
    about = f"{len(lines)} of {total:,} rows have none:"
    return f"{about}\n\n{table(('table', 'line', 'why'), lines)}"


def study_table(study, results):
    """Return the results of an `assumed.Study`; the preset's value is marked."""
    head = [
        f"{quantity(value, study.unit)}{' (preset)' if value == study.preset else ''}"
        for value in study.values
    ]
    lines = [(what, *map(number, values)) for what, values in results.items()]
    words = f"Simulated; {study.title}, by {study.constant}:"
    return f"{words}\n\n{table(('', *head), lines)}"
