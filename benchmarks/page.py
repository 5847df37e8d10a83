"""The page of the book that shows the records: ``python -m benchmarks.page`` writes it.

``--check`` says whether the stored page is what the records give.
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from benchmarks import charts, records, report
from benchmarks.cases import BENCHMARKS

ROOT = Path(__file__).parents[1]
PAGE = "records.md"
IMAGES = "records/img"
MANY = 8  # rows of a benchmark

_HEAD = """# Records

% Written by `python -m benchmarks.page` from the files in records/. Do not edit.

Every claim about speed has a run behind it. The tables show, for each machine that was measured,
the newest run: the median over the repetitions, in brackets the smallest and the largest value.
What a row is compared with was measured in turns with it, in one run; how many times as fast the
row is, is the median over the rounds. A limit is a bound to keep, and was not measured.
`make bench` measures the machine in front of you, and `make bench-check` compares it with the
newest record of the same hardware.
"""

_NO_GPU = """## GPUs

No machine with a GPU has been measured yet. The same benchmarks choose GPUs where there are some,
and then measure more: data kept in the GPU's memory, LeNet compiled into CUDA graphs, NCCL.
`make bench ARGS=--record` adds such a machine to this page.
"""


def plain(text):
    """Write a text such that nothing in it is markup, unless it begins a line."""
    return re.sub(r"[\\`*_{}\[\]<>&|$~^#]", r"\\\g<0>", " ".join(text.split()))


def render(found, problems):
    """Return the page and its charts, ``{path in the repository: content}``.

    `found` and `problems` are what `records.read_all` returns.
    """
    newest = {record.machine: path for path, record in found.items()}
    files, text = {}, [_HEAD]
    text += [_section(path, found[path], files) for path in reversed(newest.values())]
    if not found:
        text.append("Nothing has been recorded yet.\n")
    if not any(record.hardware["gpus"] for record in found.values()):
        text.append(_NO_GPU)
    if found:
        text.append(_all_records(found))
    for path, problem in problems.items():
        text += [f"No record: {plain(path.name)}, {plain(problem.splitlines()[0])}\n"]
    return {PAGE: "\n".join(text), **files}


def _section(path, record, files):
    parts = [f"## {plain(record.name)}", f"{plain(report.describe(record))}. File: {_link(path)}."]
    aims = [row for row in record.rows if row.goal is not None or row.limit is not None]
    if aims:
        parts += ["### Goals and limits", report.table(aims, plain, with_title=True)]
    compared = _for_the_ratios(record.rows)
    if compared:
        about = "How many times as fast as their peers, with the range over the rounds"
        image = f"{IMAGES}/{path.stem}-ratios.svg"
        parts.append(_figure(image, charts.ratios(compared), about, about, files))
    for name in dict.fromkeys(row.benchmark for row in record.rows):
        rows = [row for row in record.rows if row.benchmark == name]
        parts += report.section(name, rows, plain)
        if name in BENCHMARKS:
            parts += _lines(name, rows, path, files)
    return "\n\n".join(parts) + "\n"


def _for_the_ratios(rows):
    """Choose the rows that the chart of ratios shows: of a long benchmark, those with a goal."""
    compared = [row for row in rows if row.peer and row.benchmark in BENCHMARKS]
    count = Counter(row.benchmark for row in compared)
    return [row for row in compared if row.goal or count[row.benchmark] <= MANY]


def _lines(name, rows, path, files):
    """Yield the figures of a benchmark whose rows have an `x`."""
    known = BENCHMARKS[name]
    in_charts = [row for row in rows if row.x is not None and known.x_axis]
    for number, plot in enumerate(dict.fromkeys(row.plot for row in in_charts), 1):
        shown = [row for row in in_charts if row.plot == plot]
        if len({row.x for row in shown}) > 1 == len({row.unit for row in shown}):  # else no line
            about = f"{known.title}: medians and ranges, by {known.x_axis}"
            caption = f"{about}; {plain(plot)}" if plot else about
            chart = charts.lines(shown, known.x_axis, known.write_x)
            yield _figure(f"{IMAGES}/{path.stem}-{name}-{number}.svg", chart, about, caption, files)


def _figure(image, chart, about, caption, files):
    files[image] = charts.svg(chart, about)
    return f":::{{figure}} {image}\n:alt: {about}.\n\n{caption}.\n:::"


def _link(path):
    return f"{{download}}`{path.name} <records/{path.name}>`"


def _all_records(found):
    lines = ["## All records", "", "| date | hardware | commit | file |", "|---|---|---|---|"]
    for path, record in reversed(found.items()):
        cells = record.date[:10], plain(record.name), record.commit[:10], _link(path)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def stale(root=ROOT):
    """Return the files that are not what the records give, as paths in the repository."""
    wanted = render(*records.read_all(root / "records"))
    stored = {path.relative_to(root).as_posix() for path in (root / IMAGES).glob("*.svg")}
    wrong = {name for name, text in wanted.items() if _read(root / name) != text}
    return sorted(wrong | (stored - wanted.keys()))


def _read(path):
    return path.read_text(encoding="utf-8") if path.exists() else None


def write(root=ROOT):
    """Write the page and its charts, and remove charts of records that are not the newest."""
    wanted = render(*records.read_all(root / "records"))
    (root / IMAGES).mkdir(parents=True, exist_ok=True)
    for path in (root / IMAGES).glob("*.svg"):
        if path.relative_to(root).as_posix() not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (root / name).write_text(text, encoding="utf-8")


def main(arguments=None):
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    if not parser.parse_args(arguments).check:
        write()
        return 0
    wrong = stale()
    for name in wrong:
        print(f"{name} is stale: run python -m benchmarks.page")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
