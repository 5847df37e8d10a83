"""Tables of records, and the page of the book that shows them: ``python -m benchmarks.page``."""

import re

from benchmarks import charts, records
from benchmarks.cases import BENCHMARKS, Benchmark
from benchmarks.measure import Side
from benchmarks.records import spread
from simgpu.units import number, quantity

PAGE = "records.md"
IMAGES = "records/img"

_HEAD = """# Records

% Written by `python -m benchmarks.page` from the files in records/. Do not edit.

Every claim about speed is backed by a run. For each machine that was measured, the tables show the
newest run: the median over the repetitions and, in brackets, the smallest and largest values. Each
row was measured alternately with what it is compared with, and the speedup is computed round by
round; above 1, the row is the faster of the two. A limit is a bound that we must stay under, not a
measurement. `make bench` measures your machine, and `make bench-check` compares it with the newest
record of the same hardware."""

_NO_GPU = """## GPUs

No machine with a GPU has been measured yet. The same benchmarks use GPUs where there are any, and
then measure more: data kept in the GPU's memory, LeNet compiled into CUDA graphs, NCCL.
`make bench ARGS=--record` adds such a machine to this page."""


def plain(text):
    """Write a text such that nothing in it is markup, unless it begins a line."""
    return re.sub(r"[\\`*_{}\[\]<>&|$~^#]", r"\\\g<0>", " ".join(text.split()))


def describe(record):
    """Say in one line with which versions, on which commit and when a run was made."""
    names = {"python": "Python", "torch": "torch", "d2l": "d2l", "cuda": "CUDA"}
    found = record.versions
    words = [f"{word} {found[name]}" for name, word in names.items() if found.get(name)]
    state = " with changes" if record.modified else ""
    words += [f"commit {record.commit[:10]}{state}", f"{record.date[:16].replace('T', ' ')} UTC"]
    return "; ".join([*words, f"{record.repetitions} repetitions"])


def section(name, rows, write=plain):
    """Return what is to be said about the rows of a benchmark, as blocks of Markdown."""
    known = _known(name, write)
    notes = dict.fromkeys(row.note for row in rows if row.note)
    blocks = [f"### {known.title}", known.about, _table(rows, write)]
    return [*filter(None, blocks), *(f"Note: {write(note)}." for note in notes)]


def _known(name, write=plain):
    return BENCHMARKS.get(name) or Benchmark(write(name), "")  # an old record's may be gone


def _table(rows, write=plain, with_title=False):
    """Lay rows out as Markdown; where nothing is compared, two columns say everything."""
    compared = any(row.peer or row.limit for row in rows)
    lines = [("what", "median (range)", "against", "speedup (range)")]
    for row in rows:
        title = f"{_known(row.benchmark, write).title}: " if with_title else ""
        cells = row.case, spread(row.ours, row.unit), _against(row), _speedup(row)
        case, *rest = map(write, cells)
        lines.append((title + case, *rest))
    return _grid([line if compared else line[:2] for line in lines])


def _grid(lines):
    """Lay out cells as Markdown, the first line being the head."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width for width in widths]
    lines = [lines[0], rule, *lines[1:]]
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


def render(found):
    """Return the page of records, oldest first, and its charts: ``{path: content}``."""
    newest = {record.machine: record for record in found}
    files, blocks = {}, [_HEAD]
    for record in reversed(newest.values()):
        blocks += _machine(record, files)
    if not any(record.hardware["gpus"] for record in found):
        blocks.append(_NO_GPU)
    lines = [("date", "hardware", "commit", "file")]
    for record in reversed(found):
        cells = map(plain, (record.date[:10], record.name, record.commit[:10]))
        lines.append((*cells, _link(record)))
    blocks += ["## All records", _grid(lines)]
    return {PAGE: "\n\n".join(blocks) + "\n", **files}


def _machine(record, files):
    """Return the blocks of a record, and add its charts to the files."""
    blocks = [f"## {plain(record.name)}", f"{plain(describe(record))}. File: {_link(record)}."]
    aims = [row for row in record.rows if row.goal is not None or row.limit is not None]
    if aims:
        blocks += ["### Goals and limits", _table(aims, with_title=True)]
    for name in dict.fromkeys(row.benchmark for row in record.rows):
        rows = [row for row in record.rows if row.benchmark == name]
        blocks += [*section(name, rows), *_figures(name, rows, record, files)]
    return blocks


def _figures(name, rows, record, files):
    """Yield the figures of a benchmark, one for each `plot`, and add their charts to the files."""
    known = _known(name)
    for plot in dict.fromkeys(row.plot for row in rows):
        shown = [row for row in rows if row.plot == plot and row.x is not None]
        if len({row.x for row in shown}) < 2:
            continue  # no line
        image = f"{IMAGES}/{record.file_name.removesuffix('.json')}-{len(files) + 1}.svg"
        about = f"{known.title}: medians and ranges, by {known.x_axis}"
        caption = f"{about}; {plain(plot)}" if plot else about
        files[image] = charts.svg(charts.lines(shown, known.x_axis, known.write_x), about)
        yield f":::{{figure}} {image}\n:alt: {about}.\n\n{caption}.\n:::"


def _link(record):
    return f"{{download}}`{record.file_name} <records/{record.file_name}>`"


def write(root=records.ROOT):
    """Write the page and its charts; those of older records are removed."""
    files = render(records.read_all(root / "records"))
    (root / IMAGES).mkdir(parents=True, exist_ok=True)
    for path in (root / IMAGES).glob("*.svg"):
        path.unlink()
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
