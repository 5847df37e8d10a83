"""The marks of a block, such as roles, formulas and links, and the prose that is left without them.

`STEPS` take one kind of mark after the other out of the text, in this order: a later pattern would
find its marks inside earlier ones, such as a link in code, or a tag in a formula.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

HIDDEN = "\x01"  # stands in the prose for a role, a formula or code
CODE_BLOCK = re.compile(r"(?:`{3,}|~{3,})(?:\{code[\w-]*\})?[ \w-]*\n(.*)", re.DOTALL)
COMMENT = re.compile(r"(?:(?<=\s)|^)#+[ ](.*)$", re.MULTILINE)
FENCE = re.compile(r"^(:{3,}|`{3,}|~{3,})(\{[\w:-]+\})?[ ]*(.*)$", re.MULTILINE)
OPTION = re.compile(r"^:([a-z][\w-]*):[ ]*(.*)$", re.MULTILINE)
ROLE = re.compile(r"\{([\w:+-]+)\}(`+)((?:[^<`]*<(?=[^`]*>`))?)([^`]*?)(>?)\2")
FORMULA = re.compile(
    r"\$\$(.+?)\$\$(?:[ ]*(\([\w:-]+\)))?|(?<![\\$])\$([^$\n]+(?:\n[^$\n]+)*)\$", re.DOTALL
)
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"(?<=\])\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?: +\"[^\"]*\")?\)")
FOOTNOTE = re.compile(r"\[\^[^\]]+\]")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<https?:[^<>]*>")
ENTITY = re.compile(r"&\w+;")
FIELD = re.compile(r"(?<!\\)\{\{?[^{}`\n]{0,40}\}\}?(?!`)|%(?:\.\d)?[sdf]\b")
RULE_OF_TABLE = re.compile(r"^\|[ |:-]+\|[ ]*$", re.MULTILINE)
ROW = re.compile(r"^\|.*\|[ ]*$", re.MULTILINE)
ITEM = re.compile(r"^(\s*)(?:([-*+])|(\d+)[.)]) ", re.MULTILINE)
HEADING = re.compile(r"^(#{1,6}) ", re.MULTILINE)

NO_TITLE = {None, "{figure}", "{figure-md}", "{image}", "{include}", "{raw}", "{code-cell}"}
OPTIONS_WITH_WORDS = {"answer", "alt", "title", "caption"}
THOUSANDS = re.compile(r"(?<=\d)(?<!\b0)\{,\}(?=\d{3}(?!\d))")
FORMULA_WORDS = re.compile(r"\\(?:text|textbf|mathrm)\{[^{}]*\}")
PIECE_OF_FORMULA = re.compile(r"\\\w+|.")
WORDS_OF_TAGS = re.compile(r"\b(?:alt|title|aria-label)=(\"[^\"]*\"|'[^']*')")


@dataclass(frozen=True)
class Step:
    """One kind of mark.

    Attributes
    ----------
    pattern : re.Pattern
    mark : callable
        takes a match, returns what must be the same in a translation; None if that is nothing
    left : str or callable
        what stays in the prose, as `re.sub` takes it
    """

    pattern: re.Pattern
    mark: Callable
    left: str | Callable = HIDDEN


def _whole(match):
    return match[0]


def _fence(match):
    fence, name, title = match.groups()
    return f"{fence}{name or ''} {title}" if name in NO_TITLE else f"{fence}{name}"


def _title(match):
    return "" if match[2] in NO_TITLE else match[3]


def _option(match):
    value = "" if match[1] in OPTIONS_WITH_WORDS else match[2].strip()
    return f":{match[1]}: {value}"


def _words_of_option(match):
    return match[2] if match[1] in OPTIONS_WITH_WORDS else ""


def _role(match):
    return f"{{{match[1]}}}`{match[4]}`"


def _words_of_role(match):
    return match[3].removesuffix("<") + HIDDEN  # {ref}`words <target>`


def _formula(match, comma=","):
    """Return a formula without its words; `comma` is what ``{,}`` means in its numbers."""
    text = FORMULA_WORDS.sub(r"\\text{}", match[1] or match[3])
    text = "".join(THOUSANDS.sub(",", text).replace("{,}", comma).split())
    if r"\text" in text:  # what words belong to may stand on their other side
        text = "".join(sorted(PIECE_OF_FORMULA.findall(text)))
    return f"${text}${match[2] or ''}"


def _code(match):
    return f"`{' '.join(match[2].split())}`"


def _target(match):
    return f"({match[1]})"


def _tag(match):
    return WORDS_OF_TAGS.sub("", match[0])


def _words_of_tag(match):
    return " ".join(["", *WORDS_OF_TAGS.findall(match[0]), ""])


def _nothing(match):
    return None


def _rule(match):
    return "".join(match[0].split())


def _cells(match):
    return f"of {match[0].count('|') - 1} cells"


def _item(match):
    if match[3] and match.start() and not ITEM.match(match.string):
        return None  # a line of a paragraph, as "3. bölümde"
    return match[1] + (match[2] or f"{match[3]}.")


def _level(match):
    return match[1]


STEPS = {
    "fence": Step(FENCE, _fence, _title),
    "option": Step(OPTION, _option, _words_of_option),
    "role": Step(ROLE, _role, _words_of_role),
    "formula": Step(FORMULA, _formula),
    "code": Step(CODE, _code),
    "link": Step(LINK, _target, ""),
    "footnote": Step(FOOTNOTE, _whole),
    "tag": Step(TAG, _tag, _words_of_tag),
    "entity": Step(ENTITY, _nothing, " "),
    "field": Step(FIELD, _whole),
    "table rule": Step(RULE_OF_TABLE, _rule, ""),
    "table row": Step(ROW, _cells, _whole),
    "list item": Step(ITEM, _item, ""),
    "heading": Step(HEADING, _level, ""),
}


def take_apart(block, decimal_comma=False, lists=True):
    """Return the marks of a block, with their numbers of uses, and its prose.

    Without `lists`, a number with a point at the beginning is one of the prose. `HIDDEN` stands
    for roles, formulas and code there.
    """
    if code := CODE_BLOCK.match(block):
        return _take_code_apart(code[1])
    marks, text = Counter(), block
    for kind, step in _steps(decimal_comma, lists).items():
        found = map(step.mark, step.pattern.finditer(text))
        marks.update(f"{kind} {mark}".strip() for mark in found if mark is not None)
        text = step.pattern.sub(step.left, text)
    return marks, text


def _take_code_apart(code):
    """Return the code without its comments as a mark, and the comments as prose."""
    lines = [line.rstrip() for line in COMMENT.sub("#", code).split("\n")]
    return Counter(["code " + "\n".join(lines)]), "\n".join(COMMENT.findall(code))


def _steps(decimal_comma, lists):
    steps = dict(STEPS)
    if decimal_comma:
        steps["formula"] = replace(STEPS["formula"], mark=partial(_formula, comma="."))
    if not lists:
        del steps["list item"]
    return steps
