"""What running a chapter takes: ``python -m tools.costs`` measures it and writes it to the README.

Minutes are those of processor time, on one thread, as under a page's title. Memory is the largest
sum over all processes of a run, of what each has for itself and its share of what it shares (Linux
says so in ``/proc``). Every chapter runs on simulated GPUs, in its own folder; nothing is stored.
"""

import argparse
import math
import os
import re
import threading
import time
from pathlib import Path

import nbformat

from tools.notebooks import processor_seconds

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
ROW = re.compile(
    r"^\| \[([^\]]+)\]\((chapters/[\w-]+\.ipynb)\) \| (\d+) min \| ([\d.]+) GB \|$", re.M
)
BEGIN, END = "<!-- costs: written by python -m tools.costs -->", "<!-- end of costs -->"


def children():
    """Return the numbers of all processes by their parent's."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        found.setdefault(int(fields[1]), []).append(int(path.parent.name))
    return found


def below(number, tree):
    """Yield the numbers of the processes that a process has started, and those they have."""
    for child in tree.get(number, []):
        yield child
        yield from below(child, tree)


def memory(number):
    """Return the bytes that a process has for itself, and its share of what it shares."""
    try:
        text = Path(f"/proc/{number}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB$", text, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


class Peak:
    """The most memory that the processes below this one had together, in a ``with`` block."""

    def __init__(self, pause=0.5):
        self.bytes, self.pause = 0, pause
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        while not self._end.wait(self.pause):
            self.bytes = max(self.bytes, sum(map(memory, below(os.getpid(), children()))))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        self._thread.join()


def measure(path):
    """Run a notebook; return minutes of processor time and bytes."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    before = processor_seconds()
    with Peak() as peak:
        place = {"metadata": {"path": str(path.parent)}}
        NotebookClient(notebook, timeout=1800, resources=place).execute()
    return max(1, math.ceil((processor_seconds() - before) / 60)), peak.bytes


def title_of(path):
    """Return a chapter's title."""
    return nbformat.read(path, as_version=4).cells[0].source.partition("\n")[0].removeprefix("# ")


def row(path, minutes, num_bytes):
    """Return a chapter's row."""
    gigabytes = math.ceil(num_bytes / 1e8) / 10
    return f"| [{title_of(path)}](chapters/{path.name}) | {minutes} min | {gigabytes:.1f} GB |"


def update(text, rows):
    """Return the README with these rows in place of the chapters' old ones.

    Parameters
    ----------
    text : str
    rows : list of str
    """
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    lines = {match[2]: match[0] for match in ROW.finditer(text[start:end])}
    lines |= {match[2]: match[0] for match in map(ROW.match, rows)}
    head = "| chapter | to run | memory |\n|---|---|---|\n"
    return f"{text[:start]}\n{head}" + "\n".join(lines.values()) + f"\n{text[end:]}"


def with_titles(text):
    """Return the README with the chapters' titles as they are now."""

    def titled(match):
        return match[0].replace(f"[{match[1]}]", f"[{title_of(ROOT / match[2])}]", 1)

    return ROW.sub(titled, text)


def main(arguments=None):
    """Command line: measures chapters, by default all, and writes their rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all chapters")
    parser.add_argument("--print", action="store_true", help="change nothing")
    parser.add_argument("--titles", action="store_true", help="renew the titles, measure nothing")
    options = parser.parse_args(arguments)
    if options.titles:
        README.write_text(with_titles(README.read_text(encoding="utf-8")), encoding="utf-8")
        return
    os.environ |= {"D2LMINI_GPUS": "sim", "OMP_NUM_THREADS": "1"}
    for path in options.notebooks or sorted((ROOT / "chapters").glob("*.ipynb")):
        start = time.monotonic()
        new = row(path, *measure(path))
        print(f"{new} in {time.monotonic() - start:.0f} s", flush=True)
        if not options.print:
            text = update(README.read_text(encoding="utf-8"), [new])
            README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
