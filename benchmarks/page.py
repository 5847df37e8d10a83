"""The page of the book that shows the records: ``python -m benchmarks.page`` writes it.

``--check`` says whether the stored page is what the records give.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from benchmarks import plots, records, report

ROOT = Path(__file__).parents[1]
PAGE = "records.md"
IMAGES = "records/img"
MANY = 8  # rows of a benchmark

BENCHMARKS = {
    "machine": ("The machine", "What one plain operation reaches; nothing else can be faster."),
    "loader": ("Loading data", "Fashion-MNIST as float32 batches."),
    "lenet": ("LeNet", "An epoch of training and an evaluation, data loading included."),
    "parallel": (
        "Data parallelism from scratch",
        "One update with a minibatch that is split over k devices.",
    ),
    "allreduce": ("Allreduce", "Tensors of k devices are summed, and each device gets the sum."),
    "ddp": ("DistributedDataParallel", "The training script of the book, over processes."),
    "resnet": ("ResNet-18", "Training steps with data in the device's memory."),
    "sim": ("Simulated GPUs", "What simulating costs, and how close its times are."),
    "book": ("The book", "Building its pages, and what a reader's browser loads."),
}
X_AXES = {"allreduce": ("tensor size", "B"), "parallel": ("devices", ""), "ddp": ("processes", "")}

_HEAD = """# Records

% Written by `python -m benchmarks.page` from the files in records/. Do not edit.

Every claim about speed has a run behind it. The tables show, for each machine that was measured,
the newest run: the median over the repetitions, in brackets the smallest and the largest value.
Where something else is compared with, both were measured in turns in one run; the ratio is the
median over the rounds, and a ratio above 1 says that ours is better. `make bench` measures the
machine in front of you, and `make bench-check` compares it with the newest record of the same
hardware.
"""

_NO_GPU = """## GPUs

No machine with a GPU has been measured yet. The same benchmarks choose GPUs where there are some,
and then measure more: data kept in the GPU's memory, LeNet compiled into CUDA graphs, NCCL.
`make bench ARGS=--record` adds such a machine to this page.
"""


def describe(record):
    """Say in one line with which versions, on which commit and when a run was made."""
    versions = record["versions"]
    words = [f"Python {versions['python']}"]
    words += [f"{name} {versions[name]}" for name in ("torch", "d2l") if versions.get(name)]
    words += [f"CUDA {versions['cuda']}"] if versions.get("cuda") else []
    state = " with changes" if record["modified"] else ""
    words += [
        f"commit {record['commit'][:10]}{state}",
        f"{record['date'][:16].replace('T', ' ')} UTC",
    ]
    return "; ".join([*words, f"{record['repetitions']} repetitions"])


def render(found):
    """Return the page and its pictures.

    Parameters
    ----------
    found : dict of Path to dict
        Records, oldest first.

    Returns
    -------
    dict of str to str
        Content of each file, by its path in the repository.
    """
    newest = {records.same_hardware(record): (path, record) for path, record in found.items()}
    files, text = {}, [_HEAD]
    for path, record in reversed(newest.values()):
        text.append(_section(path, record, files))
    if not found:
        text.append("Nothing has been recorded yet.\n")
    if not any(record["hardware"]["gpus"] for record in found.values()):
        text.append(_NO_GPU)
    if found:
        text.append(_all_records(found))
    return {PAGE: "\n".join(text), **files}


def _section(path, record, files):
    name = records.hardware_name(record)
    parts = [
        f"## {name}",
        f"{describe(record)}. File: {{download}}`{path.name} <records/{path.name}>`.",
    ]
    with_goal = [row for row in record["rows"] if row["goal"] is not None]
    if with_goal:
        parts += ["### Goals", _table(with_goal, with_benchmark=True)]
    compared = _for_the_ratios(record["rows"])
    if compared:
        image = f"{IMAGES}/{path.stem}-ratios.svg"
        files[image] = plots.ratios(compared, "Ratios to the peers")
        parts.append(
            _figure(image, f"Ratios to the peers on {name}, with the range of the rounds.")
        )
    for benchmark in dict.fromkeys(row["benchmark"] for row in record["rows"]):
        rows = [row for row in record["rows"] if row["benchmark"] == benchmark]
        parts.append(_benchmark(benchmark, rows, path, files))
    return "\n\n".join(parts) + "\n"


def _for_the_ratios(rows):
    """Choose the rows that the picture of ratios shows: of a long benchmark, those with a goal."""
    compared = [row for row in rows if row["peer"]]
    count = Counter(row["benchmark"] for row in compared)
    return [row for row in compared if row["goal"] or count[row["benchmark"]] <= MANY]


def _benchmark(benchmark, rows, path, files):
    title, about = BENCHMARKS.get(benchmark, (benchmark, ""))
    notes = dict.fromkeys(row["note"] for row in rows if row["note"])
    bullets = "\n".join(f"- {note[0].upper()}{note[1:]}." for note in notes)
    parts = [f"### {title}", about, _table(rows), bullets]
    in_plots = [row for row in rows if row["x"] is not None]
    for number, plot in enumerate(dict.fromkeys(row["plot"] for row in in_plots), 1):
        shown = [row for row in in_plots if row["plot"] == plot]
        if len({row["x"] for row in shown}) < 2:
            continue  # a line needs two points
        image = f"{IMAGES}/{path.stem}-{benchmark}-{number}.svg"
        heading = f"{title}, {plot}" if plot else title
        files[image] = plots.lines(shown, heading, *X_AXES[benchmark])
        parts.append(_figure(image, f"{heading}: medians and ranges."))
    return "\n\n".join(filter(None, parts))


def _figure(image, caption):
    return f":::{{figure}} {image}\n:alt: {caption}\n\n{caption}\n:::"


def _table(rows, with_benchmark=False):
    """Lay rows out as a table; without peers, two columns say everything."""
    names = ["what", "median (range)", "against", "better by"]
    width = 4 if any(row["peer"] for row in rows) else 2
    lines = [names[:width], ["---"] * width]
    for row in rows:
        case, *rest = report.cells(row)[:width]
        lines.append([f"{_title(row['benchmark'])}: {case}" if with_benchmark else case, *rest])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _title(benchmark):
    return BENCHMARKS.get(benchmark, (benchmark, ""))[0]


def _all_records(found):
    lines = ["## All records", "", "| date | hardware | commit | file |", "|---|---|---|---|"]
    for path, record in reversed(found.items()):
        link = f"{{download}}`{path.name} <records/{path.name}>`"
        commit = record["commit"][:10]
        lines.append(
            f"| {record['date'][:10]} | {records.hardware_name(record)} | {commit} | {link} |"
        )
    return "\n".join(lines) + "\n"


def stale(root=ROOT):
    """Return the files that are not what the records give, as paths in the repository."""
    wanted = render(records.load_all(root / "records"))
    stored = {path.relative_to(root).as_posix() for path in (root / IMAGES).glob("*.svg")}
    wrong = {name for name, text in wanted.items() if _read(root / name) != text}
    return sorted(wrong | (stored - wanted.keys()))


def _read(path):
    return path.read_text(encoding="utf-8") if path.exists() else None


def write(root=ROOT):
    """Write the page and its pictures, and remove pictures of records that are not the newest."""
    wanted = render(records.load_all(root / "records"))
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
