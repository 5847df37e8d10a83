"""Words that a language's texts avoid, `editions/LANG/avoided.csv`, and what to say instead.

Columns: a regular expression (in lower case; but in Korean and Chinese, of whole words, `*` for
any ending), what to say, and an expression of the English in whose blocks the word is right, such
as "lane" for *şerit*.
"""

import csv
import re
from functools import cache
from pathlib import Path

from tools.editions.rules.terms import LOWER

ROOT = Path(__file__).parents[3]
ENDING = r"[^\W\d]*"
WITHOUT_SPACES = {"ko", "zh"}  # where words go on without a space


@cache
def read(language, root=ROOT):
    """Return triples: a pattern of the translation, what to say, a pattern of the English."""
    path = root / "editions" / language / "avoided.csv"
    if not path.exists():
        return ()

    def pattern(avoided):
        if language in WITHOUT_SPACES:
            return re.compile(avoided)
        return re.compile(rf"(?<!\w)(?:{avoided.replace('*', ENDING)})(?!\w)")

    with open(path, encoding="utf-8", newline="") as lines:
        return tuple(
            (
                pattern(row["avoided"]),
                row["say"],
                re.compile(row["right_for"] or "(?!)", re.IGNORECASE),
            )
            for row in csv.DictReader(lines)
        )


def found(language, english, translated):
    """Yield the words of a translation that its language's texts avoid.

    Parameters
    ----------
    language : str
        "tr", "ko" or "zh"
    english, translated : str
        the prose of both blocks
    """
    text = (translated.translate(LOWER) if language == "tr" else translated).lower()
    text = " ".join(text.split())
    for pattern, say, right_for in read(language):
        if not right_for.search(english) and (match := pattern.search(text)):
            yield f"avoided: {match[0]}, say {say}"
