"""Reviews of the sense of translated pages: what is read, and what was found.

`sample` chooses the blocks that somebody who has not seen the English translates back. What
somebody else has found by comparing is noted in ``editions/LANG/reviews.csv``. A page is published,
that is built in its language, if its last review has found no critical difference, at most one
major, and at most 10 points on 1,000 English words (minor 1, major 5, critical 25).
"""

import csv
import re
from pathlib import Path

from tools.editions import pages, store
from tools.editions.blocks import digest

ROOT = Path(__file__).parents[2]
POINTS = {"minor": 1, "major": 5, "critical": 25}
MOST_POINTS = 10  # on 1,000 words
NATIVE = "native"  # the mark of a review by a native reader
SHARE = 0.15  # of the blocks that are sampled, besides those in which sense is easily lost
DELICATE = re.compile(
    r"(?i)\b(?:not|no|never|none|neither|nor|cannot|without|nothing|than|instead|times as|twice as|"
    r"half as|at least|at most|unless|except)\b|n't\b"
)
GLUED = "{glue"
FIELDS = ("page", "words", "minor", "major", "critical", "reader")


def sample(name, root=ROOT):
    """Return the English blocks of a page whose translations are translated back.

    All with negations, comparisons or two glued numbers, and a share of the others, which their
    digests choose.
    """
    return [block for block in pages.blocks_of(name, root) if is_chosen(block)]


def is_chosen(block):
    """Return whether a block is part of the sample."""
    is_delicate = DELICATE.search(block) or block.count(GLUED) >= 2
    return bool(is_delicate) or int(digest(block), 16) / 16**8 < SHARE


def to_translate_back(language, name, root=ROOT):
    """Return the translations of the sampled blocks, without their English."""
    table = store.read(language, name, root)
    keys = [digest(block) for block in sample(name, root)]
    return "".join(f"%% {key}\n{table[key]}\n\n" for key in keys if key in table)


def beside(language, name, back, root=ROOT):
    """Return English, translation and what was translated back, one block after the other.

    Parameters
    ----------
    back : str
        What `to_translate_back` gives, translated.
    """
    table, back = store.read(language, name, root), store.parse(back)
    blocks = [block for block in pages.blocks_of(name, root) if digest(block) in back]
    return "".join(
        f"%% {digest(b)}\n{b}\n--- translation\n{table[digest(b)]}\n--- back\n{back[digest(b)]}\n\n"
        for b in blocks
    )


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
    """Return whether a page with that review may be published."""
    return not review["critical"] and review["major"] <= 1 and points(review) <= MOST_POINTS


def is_published(language, page, root=ROOT):
    """Return whether a page is built in a language: its last review has passed."""
    found = [review for review in read(language, root) if review["page"] == page]
    return bool(found) and has_passed(found[-1])


def is_draft(language, root=ROOT):
    """Return whether no native reader has confirmed an edition yet."""
    return not any(NATIVE in review["reader"] for review in read(language, root))
