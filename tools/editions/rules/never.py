"""What a translation never says, `editions/never.csv`: a pattern, and what to say in its place.

`terms.csv` finds a term whose word is missing; these patterns find wrong words that a block may
have beside the right one, and what a reader of the language stumbles over.
"""

import csv
import re
from functools import cache
from pathlib import Path

PATH = Path(__file__).parents[3] / "editions" / "never.csv"
KEPT = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)|(?<=\])\([^()\s]*\)", re.DOTALL)


@cache
def read(language, path=PATH):
    """Return the patterns of a language, each with what to say."""
    with open(path, encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["language"] == language]
    return [(re.compile(row["never"], re.MULTILINE), row["say"]) for row in rows]


def said(language, block):
    """Yield what a block says and should not.

    Code and addresses are no words: each counts as one pair of backticks, with its role.

    Examples
    --------
    >>> print(*said("ko", "식 {eq}`eq-a`가 그렇다."))
    {eq}``가: a noun behind the number, 식 (1)의 값이
    """
    text = KEPT.sub(lambda match: "``" if match[1] else "", block)
    for pattern, say in read(language):
        for match in pattern.finditer(text):
            yield f"{match[0].strip()}: {say}"
