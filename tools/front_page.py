"""The minutes on the front page: ``python -m tools.front_page`` copies them from the chapters.

Each row of its table of chapters says how long the chapter takes to read, as the line under the
chapter's title does.
"""

import re
from pathlib import Path

import nbformat

from tools.reading import TIME_LINE

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"(\]\((chapters/[\w-]+\.ipynb)\) \| )\d+( \|)")


def update(text, root=ROOT):
    """Return the front page with the minutes of the chapters that are there."""

    def minutes(row):
        path = root / row[2]
        line = path.exists() and TIME_LINE.search(nbformat.read(path, 4).cells[0].source)
        return f"{row[1]}{line[1]}{row[3]}" if line else row[0]

    return ROW.sub(minutes, text)


def main():
    """Write the minutes."""
    page = ROOT / "intro.md"
    page.write_text(update(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
