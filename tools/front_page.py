"""Numbers on the front page: ``python -m tools.front_page`` writes them.

Each card of a chapter says how long the chapter takes to read, as the line under the chapter's
title does. One line says what simulated times were compared with, from the record in records/.
"""

import re
from pathlib import Path

import nbformat

from benchmarks.published import record
from benchmarks.published.page import findings
from tools.words.lines import time_line

ROOT = Path(__file__).parents[1]
CARD = re.compile(r"(\]\((chapters/[\w-]+\.ipynb)\)\*\*, )\d+((?: |&nbsp;)minutes)")

TRUST = re.compile(r"(?<=Simulated times were compared with )[^\n]+(?=\*\n)")


def compared():
    """Return what simulated times were compared with, and how far off they were."""
    found = findings.all_numbers(record.read(ROOT / record.PATH)[0])
    half = f"half of {found['programs_rows']} training steps are within "
    return (
        f"{found['total_rows']} published measurements: {half}{found['programs_median']:.0%}. "
        "[How far to trust the clock](chapters/how-far-to-trust-the-clock.md) has all of them."
    )


def update(text, root=ROOT):
    """Return the front page with the minutes of the chapters that are there, and the comparison."""

    def minutes(card):
        path = root / card[2]
        line = path.exists() and time_line(nbformat.read(path, 4).cells[0].source)
        return f"{card[1]}{line['read']}{card[3]}" if line else card[0]

    text = CARD.sub(minutes, text)
    return TRUST.sub(lambda _: compared(), text)


def main():
    """Write the numbers."""
    page = ROOT / "intro.md"
    page.write_text(update(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
