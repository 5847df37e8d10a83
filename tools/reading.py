"""How long a page takes to read, and how much of it is not prose.

``python -m tools.reading`` prints a table of the pages that are notebooks; `LIMITS` is what tests
hold the chapters to. The line under a page's title is written by ``python -m tools.notebooks``.

A reader is taken to need a minute for 150 words of this kind or for a picture, 4 s for a line of
code and 2 s for a line of printed output. What is folded or removed does not count, nor do the
exercises, except among the cells, nor the options of a guess: they take the place of a pause.
"""

import math
import re
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
WORDS, CODE, OUTPUT, PICTURE = 60 / 150, 4, 2, 60  # seconds for one
LIMITS = {"cells": 60, "words": 2600, "minutes": 36, "longest output": 12}
FOLDED = {"hide-cell", "remove-cell"}
TIME_LINE = re.compile(r"^\*(\d+) minutes? to read(?:, (\d+) minutes? to run)?\.\*$", re.MULTILINE)

_COMMENT = re.compile(r"^%.*$", re.MULTILINE)
_FENCE = re.compile(r"^(:{3,}|`{3,})\{(\w[\w-]*)\}(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"^:\w[\w-]*:.*$", re.MULTILINE)
_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\]\([^)]*\)")
_WORD = re.compile(r"\w[\w'.,\u2019-]*")


def tags(cell):
    """Return a cell's tags."""
    return set(cell.metadata.get("tags", []))


def seen_markdown(source):
    """Return what a reader sees of a Markdown cell: nothing that is folded, no syntax."""

    def fence(match):
        return "" if match[2] in ("dropdown", "toggle", "guess") else _OPTION.sub("", match[3])

    source = TIME_LINE.sub("", _COMMENT.sub("", source))
    for _ in range(3):  # fences in fences
        source = _FENCE.sub(fence, source)
    return source


def seen_code(cell):
    """Return the lines of a code cell that a reader sees."""
    if tags(cell) & (FOLDED | {"hide-input", "remove-input"}):
        return []
    return [line for line in cell.source.splitlines() if line.strip()]


def seen_outputs(cell):
    """Return the lines of printed output that a reader sees, and the number of pictures."""
    if tags(cell) & (FOLDED | {"hide-output", "remove-output"}):
        return [], 0
    lines, pictures = [], 0
    for output in cell.outputs:
        data = output.get("data", {})
        if "text/html" in data or "image/png" in data or "image/svg+xml" in data:
            pictures += 1
        elif "application/papermill.record/text/plain" not in str(data.keys()):
            text = output.get("text") or data.get("text/plain") or ""
            lines += [line for line in text.splitlines() if line.strip()]
    return lines, pictures


def before_exercises(cells):
    """Yield the cells before the exercises."""
    for cell in cells:
        if cell.cell_type == "markdown" and re.search(r"^## Exercises", cell.source, re.MULTILINE):
            return
        yield cell


def is_seen(cell):
    """Say whether anything of a cell is on the page."""
    if cell.cell_type == "markdown":
        return bool(seen_markdown(cell.source).strip())
    if cell.cell_type != "code":
        return False
    lines, pictures = seen_outputs(cell)
    return bool(seen_code(cell) or lines or pictures)


def measure(notebook):
    """Return how much there is to read in a notebook.

    Returns
    -------
    dict
        Numbers of ``words``, ``cells`` that are seen (exercises included), ``code lines``,
        ``output lines``, ``pictures``, lines of the ``longest output``, calls of ``glue`` that are
        seen, and ``minutes`` to read.
    """
    words = code = printed = pictures = longest = 0
    for cell in before_exercises(notebook.cells):
        if cell.cell_type == "markdown":
            text = seen_markdown(cell.source)
            pictures += len(_PICTURE.findall(text))
            words += len(_WORD.findall(_LINK.sub("]", _PICTURE.sub("", text))))
        elif cell.cell_type == "code":
            lines, drawn = seen_outputs(cell)
            code += len(seen_code(cell))
            printed, pictures = printed + len(lines), pictures + drawn
    for cell in notebook.cells:
        if cell.cell_type == "code":
            longest = max(longest, len(seen_outputs(cell)[0]))
    seconds = WORDS * words + CODE * code + OUTPUT * printed + PICTURE * pictures
    shown = "\n".join("\n".join(seen_code(c)) for c in notebook.cells if c.cell_type == "code")
    return {
        "words": words,
        "cells": sum(map(is_seen, notebook.cells)),
        "code lines": code,
        "output lines": printed,
        "pictures": pictures,
        "longest output": longest,
        "glue": len(re.findall(r"\bglue\(", shown)),
        "minutes": max(1, math.ceil(seconds / 60)),
    }


def time_line(read, run=None):
    """Return the line under a title."""

    def minutes(count):
        return f"{count} minute{'s' * (count != 1)}"

    return f"*{minutes(read)} to read" + (f", {minutes(run)} to run" if run else "") + ".*"


def update_time_line(notebook, run=None):
    """Write how long a notebook takes under its title, in place.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
    run : int, optional
        Minutes that it runs; by default what the line says already.
    """
    first = notebook.cells[0] if notebook.cells else None
    if first is None or first.cell_type != "markdown" or not first.source.startswith("# "):
        return
    title, _, rest = notebook.cells[0].source.partition("\n")
    old = TIME_LINE.match(rest.lstrip())
    if old:
        rest = rest.lstrip()[old.end() :]
        run = run or (old[2] and int(old[2]))
    line = time_line(measure(notebook)["minutes"], run)
    notebook.cells[0].source = f"{title}\n\n{line}\n\n{rest.lstrip()}".rstrip()


def main():
    """Print the table."""
    rows = {path.stem: measure(nbformat.read(path, 4)) for path in _pages()}
    names = list(next(iter(rows.values())))
    width = max(map(len, rows))
    print(" " * width, *names, sep="  ")
    for page, row in rows.items():
        print(page.ljust(width), *(str(row[name]).rjust(len(name)) for name in names), sep="  ")


def _pages():
    return [Path(p) for p in sys.argv[1:]] or sorted((ROOT / "chapters").glob("*.ipynb"))


if __name__ == "__main__":
    main()
