"""What running a chapter takes: ``python -m tools.costs`` measures it and writes it to the README.

Memory is the largest that all processes of a run have together (Linux says so in ``/proc``). What
they share counts once, and what they share with programs outside the run, such as the libraries of
PyTorch, counts in full: a busy machine measures the same as an idle one. Chapters run on simulated
GPUs, in their own folder, and nothing is stored. Minutes are those under a page's title;
``--minutes`` renews them and the titles, and measures nothing.
"""

import argparse
import math
import os
import re
import threading
from pathlib import Path

import nbformat
import yaml

from tools.words.lines import time_line

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
UNKNOWN = "not measured"
ROW = re.compile(
    rf"^\| \[([^\]]+)\]\((chapters/[\w-]+\.ipynb)\) \| (\d+) min \| ([\d.]+ GB|{UNKNOWN}) \|$", re.M
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


def memory(numbers):
    """Return the bytes that processes have together.

    Each has its share of the memory that it writes. Files that are mapped are mostly the same
    libraries in all of them: they count as often as the process with the most maps them, once.
    """
    written, files = 0, 0
    for number in numbers:
        try:
            text = Path(f"/proc/{number}/smaps_rollup").read_text()
            status = Path(f"/proc/{number}/status").read_text()
        except OSError:
            continue  # it has ended
        written += sum(map(int, re.findall(r"^Pss_(?:Anon|Shmem): +(\d+) kB$", text, re.M)))
        files = max([files, *map(int, re.findall(r"^RssFile:\s+(\d+) kB$", status, re.M))])
    return 1024 * (written + files)


class Peak:
    """The most memory that the processes below this one had together, in a ``with`` block."""

    def __init__(self, pause=0.5):
        self.bytes, self.pause = 0, pause
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        while not self._end.wait(self.pause):
            self.bytes = max(self.bytes, memory(below(os.getpid(), children())))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        self._thread.join()


def measure(path):
    """Run a notebook; return the bytes that it takes."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with Peak() as peak:
        place = {"metadata": {"path": str(path.parent)}}
        NotebookClient(notebook, timeout=1800, resources=place).execute()
    return peak.bytes


def row(path, memory):
    """Return a chapter's row.

    Parameters
    ----------
    path : pathlib.Path
    memory : str
        As `gigabytes` writes it, or `UNKNOWN`.
    """
    first = nbformat.read(path, as_version=4).cells[0].source
    title = first.partition("\n")[0].removeprefix("# ")
    minutes = time_line(first)["run"]
    return f"| [{title}](chapters/{path.name}) | {minutes} min | {memory} |"


def gigabytes(num_bytes):
    """Write a number of bytes, rounded up."""
    return f"{math.ceil(num_bytes / 1e8) / 10:.1f} GB"


def chapters():
    """Return the paths of all chapters, in the book's order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = [entry["file"] for part in toc["parts"] for entry in part["chapters"]]
    return [path for file in files if (path := ROOT / f"{file}.ipynb").exists()]


def update(text, measured):
    """Return the README with a row for each chapter.

    Parameters
    ----------
    text : str
    measured : dict of pathlib.Path to int
        Bytes of chapters; the others keep what they have.
    """
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    memory = {match[2]: match[4] for match in ROW.finditer(text[start:end])}
    memory |= {f"chapters/{path.name}": gigabytes(size) for path, size in measured.items()}
    rows = [row(path, memory.get(f"chapters/{path.name}", UNKNOWN)) for path in chapters()]
    head = "| chapter | to run | memory |\n|---|---|---|\n"
    return f"{text[:start]}\n{head}" + "\n".join(rows) + f"\n{text[end:]}"


def write(measured):
    """Write what was measured to the README."""
    README.write_text(update(README.read_text(encoding="utf-8"), measured), encoding="utf-8")


def main(arguments=None):
    """Command line: measures chapters, by default all, and writes their rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all chapters")
    parser.add_argument("--minutes", action="store_true", help="measure nothing")
    options = parser.parse_args(arguments)
    if options.minutes:
        return write({})
    os.environ |= {"D2LMINI_GPUS": "sim", "OMP_NUM_THREADS": "1"}
    for path in options.notebooks or chapters():
        size = measure(path)
        print(row(path, gigabytes(size)), flush=True)
        write({path: size})
    return None


if __name__ == "__main__":
    main()
