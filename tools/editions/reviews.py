"""What readers have said of translated pages: ``editions/LANG/reviews.csv``.

A page is published, that is built in its language, when somebody has translated a part of it back
and somebody else has marked the differences of sense: none critical, at most one major, and at most
10 points on 1,000 English words (minor 1, major 5, critical 25).
"""

import csv
from pathlib import Path

ROOT = Path(__file__).parents[2]
POINTS = {"minor": 1, "major": 5, "critical": 25}
MOST_POINTS = 10  # on 1,000 words
NATIVE = "native"  # the mark of a review by a native reader
FIELDS = ("page", "words", "minor", "major", "critical", "reader")


def read(language, root=ROOT):
    """Return the reviews of an edition: dictionaries with the fields of the file."""
    path = root / "editions" / language / "reviews.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    return [row | {name: int(row[name]) for name in ("words", *POINTS)} for row in rows]


def points(review):
    """Return the points of a review on 1,000 English words.

    Examples
    --------
    >>> points({"words": 500, "minor": 3, "major": 0, "critical": 0})
    6.0
    """
    return 1000 * sum(worth * review[kind] for kind, worth in POINTS.items()) / review["words"]


def has_passed(review):
    """Say whether a page with that review may be published."""
    return not review["critical"] and review["major"] <= 1 and points(review) <= MOST_POINTS


def is_published(language, page, root=ROOT):
    """Say whether a page is built in a language: its last review has passed."""
    found = [review for review in read(language, root) if review["page"] == page]
    return bool(found) and has_passed(found[-1])


def is_draft(language, root=ROOT):
    """Say whether no native reader has confirmed an edition yet."""
    return not any(NATIVE in review["reader"] for review in read(language, root))
