"""What answers a guess: in a reader's notebook it is not there before the reader runs the cells.

The page covers it (`tools.pages.guesses`, ``assets/guess.js``). A notebook has no covers, so the
outputs are cleared, a check does not say in words what it checks, and a verdict is folded.
"""

import copy
import re

from tools.notebooks import tags
from tools.readers import markup
from tools.words import say

SHORT = 30  # words of a verdict, as in assets/guess.js
_NO_VERDICT = re.compile(r"^[#:|>`~*+-]|\*\*|\$|\{math\}|^\(")


def without_answers(cells):
    """Return the cells of a page's source without what would answer its guesses."""
    cells = [copy.deepcopy(cell) for cell in cells]
    for number, cell in enumerate(cells):
        if cell.cell_type == "markdown" and (guess := _guess(cell.source)):
            _cover([c for c in cells[number + 1 :] if not _is_unseen(c)], guess)
    return cells


def _guess(text):
    """Return the guess of a text, None if there is none."""
    if "{guess}" not in text:
        return None
    found = filter(None, map(markup.directive, markup.parse(text)[0]))
    return next((directive for directive in found if directive.name == "guess"), None)


def _is_unseen(cell):
    return cell.cell_type == "code" and bool(tags(cell) & {"remove-cell"})


def _cover(following, guess):
    """Clear and fold, in place, what answers a guess among the cells that the page shows then."""
    count = _number_covered(following, guess)
    for cell in following[:count]:
        _clear(cell)
    rest = following[count:]
    if rest and rest[0].cell_type == "markdown" and (verdict := _verdict(rest[0].source)):
        folded = f":::{{dropdown}} {say('The answer')}\n{verdict}\n:::\n"
        rest[0].source = folded + rest[0].source[len(verdict) :]
        if rest[0].source == folded and rest[1:]:
            rest = rest[1:]  # a check that follows at once
    if rest and rest[0].cell_type == "code" and "check" in tags(rest[0]):
        _clear(rest[0])


def _number_covered(following, guess):
    """Return where the cells end that a guess covers: as many as it says, or up to the text."""
    programs = [n for n, cell in enumerate(following) if cell.cell_type == "code"]
    if "cells" in guess.options:
        return programs[: int(guess.options["cells"])][-1] + 1
    texts = (n for n, cell in enumerate(following) if cell.cell_type != "code")
    return next(texts, len(following))


def _clear(cell):
    if cell.cell_type != "code":
        return
    if "check" in tags(cell):
        unsaid = say("Helper: checks the answer")
        cell.source = f"# {unsaid}\n{cell.source.partition(chr(10))[2]}"
        cell.metadata["tags"] = [tag for tag in cell.metadata["tags"] if tag != "check"]
    elif not tags(cell) & {"hide-cell", "hide-output"}:
        cell.outputs, cell.execution_count = [], None


def _verdict(text):
    """Return the first paragraph of a text if it says the answer and nothing that teaches."""
    first = re.split(r"\n\s*\n", text, maxsplit=1)[0]
    is_short = len(first.split()) <= SHORT
    return first if is_short and not _NO_VERDICT.search(first) else ""
