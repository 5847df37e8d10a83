"""What programs can check in one translated block: markup, numbers, sentences and length.

`problems` also asks `typography`, `avoided` and `terms`. Programs see the form and never the
sense: a negation that got lost passes all of it.
"""

# ruff: noqa: RUF001

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt

from tools.editions.rules import avoided, numbers, typography
from tools.editions.rules import terms as words
from tools.editions.rules.marks import FORMULA, HIDDEN, ITEM, take_apart

END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\betc)[.?!]+(?=[\s)”\"*_\]]|$)")
END_BESIDE_HAN = re.compile(r"[。？！]+|(?<!\d)[.?!]+(?=[\s)”\"*_\]]|$)")
ORDINAL = re.compile(r"\d+\.(?= \w)|^\s*\d+\. ", re.MULTILINE)
LEAST = {"zh": 0.22, "ko": 0.36, "tr": 0.72}
MOST = {"zh": 0.75, "ko": 1.15, "tr": 1.75}
SHOWN = 100  # letters of a mark in a message
PARSER = MarkdownIt("commonmark")


@dataclass(frozen=True)
class Problem:
    """What a rule found.

    Attributes
    ----------
    kind : str
        "error", or "warning" where a person has to look
    text : str
        the rule, and what is missing or added
    """

    kind: str
    text: str

    def __str__(self):
        return f"{self.kind}: {self.text}"


def problems(language, english, translated, terms):
    """Return what the rules find in the translation of one block.

    Parameters
    ----------
    language : str
        "tr", "ko" or "zh"
    english, translated : str
        a Markdown block, a comment, an alternative text, or a string with `{fields}`
    terms : words.Terms
        of that language, see `words.read`

    Returns
    -------
    list of Problem
        errors first
    """
    marks, source = take_apart(english)
    lists = english.rstrip().endswith((".", ":", "?", "!")) or bool(ITEM.search(english))
    other_marks, prose = take_apart(translated, language == "tr", lists)
    found = [("error", f"markup: {text}") for text in differing(marks, other_marks)]
    found += [("error", text) for text in stars(english, translated)]
    found += numbers.differing(language, source, prose, in_code=not marks and "**" not in english)
    found += [("error", f"typography: {text}") for text in typography.slips(language, translated)]
    found += [("error", text) for text in avoided.found(language, source, prose)]
    found += [("warning", text) for text in numbers.names(source, prose)]
    found += [("warning", text) for text in lengths(language, source, prose)]
    found += [("warning", text) for text in typography.doubts(language, prose)]
    found += [("warning", text) for text in typography.left_over(language, source, prose, terms)]
    found += [("warning", text) for text in words.missing(language, source, prose, terms)]
    return [Problem(*pair) for pair in dict.fromkeys(found)]


def differing(marks, others):
    """Return what one collection of marks has and the other has not, as sentences."""
    if marks == others:
        return []
    sides = (("missing", marks - others), ("added", others - marks))
    return [
        f"{side} {mark if len(mark) < SHOWN else mark[:SHOWN] + ' ...'}"
        + (f" ({count} times)" if count > 1 else "")
        for side, left in sides
        for mark, count in left.items()
    ]


def stars(english, translated):
    """Yield what is wrong with bold text: another number of it, or `**` that a page shows."""
    if "*" not in english and "*" not in translated:
        return
    bold, shown_too = emphasis(english)
    other, shown = emphasis(translated)
    if len(shown) > len(shown_too):
        yield (
            f"bold: the page would show the asterisks of {shown[0]!r}: no punctuation, role or "
            "bracket inside beside a letter outside"
        )
    elif bold != other:
        yield f"bold: {other} bold texts in place of {bold}"


def emphasis(block):
    """Return the number of bold texts, and what stands around asterisks that a page shows."""
    block = FORMULA.sub("$x$", block)
    block = re.sub(r"(?m)^\s*\* ", "- ", block)
    count, shown = 0, []
    for part in re.split(r"\n(?=\s*(?:[-+]|\d+\.) |\|)|(?<=\|)", block):
        if "*" not in part:
            continue
        for token in PARSER.parseInline(part)[0].children:
            count += token.type == "strong_open"
            if token.type == "text":
                shown += re.findall(r"\S{0,8}(?<!\s)\*+|\*+(?!\s)(?<!\s\*)\S{0,8}", token.content)
    return count, [text for text in shown if not re.search(r"\w\*+\w", text)] if count else shown


def lengths(language, english, translated):
    """Yield whether sentences or much of a text are missing, or much was added."""
    ends = END_BESIDE_HAN if language == "zh" else END
    source = ORDINAL.sub("", english.replace(HIDDEN, "x"))
    prose = ORDINAL.sub("", translated.replace(HIDDEN, "x"))
    here, there = len(END.findall(source.strip())), len(ends.findall(prose.strip()))
    if there < here - 1 or (here > 1 and not there):
        yield f"sentences: {there} in place of {here}"
        return
    size, other = len(" ".join(source.split())), len(" ".join(prose.split()))
    if other < LEAST[language] * size - 12:
        yield f"length: {other} letters for {size}, is something missing?"
    elif other > MOST[language] * size + 30:
        yield f"length: {other} letters for {size}, was something added?"
