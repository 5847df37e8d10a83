"""The minutes on the front page: ``python -m tools.front_page`` copies them from the chapters.

Each card of a chapter says how long the chapter takes to read, as the line under the chapter's
title does.
"""

import re
from pathlib import Path

import nbformat

from tools.notebooks import TIME_LINE

ROOT = Path(__file__).parents[1]
CARD = re.compile(r"(\]\((chapters/[\w-]+\.ipynb)\)\*\*, )\d+((?: |&nbsp;)minutes)")


def update(text, root=ROOT):
    """Return the front page with the minutes of the chapters that are there."""

    def minutes(card):
        path = root / card[2]
        line = path.exists() and TIME_LINE.search(nbformat.read(path, 4).cells[0].source)
        return f"{card[1]}{line[1]}{card[3]}" if line else card[0]

    return CARD.sub(minutes, text)


def main():
    """Write the minutes."""
    page = ROOT / "intro.md"
    page.write_text(update(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
