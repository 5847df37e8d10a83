"""What programs can check in one translated block: markup, numbers, sentences and length.

`problems` also asks `typography` and `terms`. Programs see the form and never the sense: a
negation that got lost passes all of it.
"""

# ruff: noqa: RUF001

import re
from collections import Counter
from dataclasses import dataclass

from markdown_it import MarkdownIt

from tools.editions.rules import numbers, typography
from tools.editions.rules import terms as words

HIDDEN = "\x01"  # stands for what is no prose: a role, a formula, code
ROLE = re.compile(r"\{([\w:+-]+)\}(`+)((?:[^<`]*<(?=[^`]*>`))?)([^`]*?)(>?)\2")
FORMULA = re.compile(
    r"\$\$(.+?)\$\$(?:[ ]*(\([\w:-]+\)))?|(?<![\\$])\$([^$\n]+(?:\n[^$\n]+)*)\$", re.DOTALL
)
THOUSANDS = re.compile(r"(?<=\d)\{,\}(?=\d{3}(?!\d))")
FORMULA_WORDS = re.compile(r"\\(?:text|textbf|mathrm)\{[^{}]*\}")
PIECE_OF_FORMULA = re.compile(r"\\\w+|.")
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"(?<=\])\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?: +\"[^\"]*\")?\)")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<https?:[^<>]*>")
WORDS_OF_TAGS = re.compile(r"\b(?:alt|title|aria-label)=(\"[^\"]*\"|'[^']*')")
DIRECTIVE = re.compile(r"^(:{3,}|`{3,}|~{3,})(\{[\w:-]+\})?[ ]*(.*)$", re.MULTILINE)
CODE_BLOCK = re.compile(r"(?:`{3,}|~{3,})(?:\{code[\w-]*\})?[ \w-]*\n(.*)", re.DOTALL)
COMMENT = re.compile(r"(?:(?<=\s)|^)#+[ ](.*)$", re.MULTILINE)
NO_TITLE = {"{figure}", "{figure-md}", "{image}", "{include}", "{raw}", "{code-cell}"}
OPTION = re.compile(r"^:([a-z][\w-]*):[ ]*(.*)$", re.MULTILINE)
OPTIONS_WITH_WORDS = {"answer", "alt", "title", "caption"}
FIELD = re.compile(r"(?<!\\)\{\{?[^{}`\n]{0,40}\}\}?(?!`)|%(?:\.\d)?[sdf]\b")
ENTITY = re.compile(r"&\w+;")
FOOTNOTE = re.compile(r"\[\^[^\]]+\]")
HEADING = re.compile(r"^(#{1,6}) ", re.MULTILINE)
ITEM = re.compile(r"^(\s*)(?:([-*+])|(\d+)[.)]) ", re.MULTILINE)
ROW = re.compile(r"^\|.*\|[ ]*$", re.MULTILINE)
RULE_OF_TABLE = re.compile(r"^\|[ |:-]+\|[ ]*$", re.MULTILINE)

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


def take_apart(block, decimal_comma=False, lists=True):
    """Return the marks of a block, with their numbers of uses, and its prose.

    Without `lists`, a number with a point at the beginning is one of the prose. `HIDDEN` stands
    for roles, formulas and code there.
    """
    marks = Counter()
    if not re.search(r"[`{$<\[|#:*+\d%-]", block):
        return marks, block
    if code := CODE_BLOCK.match(block):
        lines = [line.rstrip() for line in COMMENT.sub("#", code[1]).split("\n")]
        marks["code " + "\n".join(lines)] += 1
        return marks, "\n".join(COMMENT.findall(code[1]))

    def keep(kind, text, stand_in=HIDDEN):
        marks[f"{kind} {text}".strip()] += 1
        return stand_in

    def role(match):
        words_of_role = match[3].removesuffix("<")  # {ref}`words <target>`
        keep("role", f"{{{match[1]}}}`{match[4]}`")
        return words_of_role + HIDDEN if words_of_role else HIDDEN

    def formula(match):
        text = FORMULA_WORDS.sub(r"\\text{}", match[1] or match[3])
        text = THOUSANDS.sub(",", text)
        text = "".join(text.replace("{,}", "." if decimal_comma else ",").split())
        if r"\text" in text:  # what words belong to may stand on their other side
            text = "".join(sorted(PIECE_OF_FORMULA.findall(text)))
        return keep("formula", f"${text}${match[2] or ''}")

    def tag(match):
        attributes = WORDS_OF_TAGS.findall(match[0])
        return keep("tag", WORDS_OF_TAGS.sub("", match[0]), " ".join(["", *attributes, ""]))

    def directive(match):
        fence, name, title = match.groups()
        if name in NO_TITLE or not name:
            return keep("fence", f"{fence}{name or ''} {title}".strip(), "")
        return keep("fence", f"{fence}{name}", title)

    def option(match):
        if match[1] in OPTIONS_WITH_WORDS:
            return keep("option", f":{match[1]}:", match[2])
        return keep("option", f":{match[1]}: {match[2].strip()}", "")

    text = DIRECTIVE.sub(directive, block) if re.search(r"^[:`~]{3}", block, re.M) else block
    text = OPTION.sub(option, text) if re.search(r"^:", text, re.M) else text
    text = ROLE.sub(role, text) if "{" in text else text
    text = FORMULA.sub(formula, text) if "$" in text else text
    text = CODE.sub(lambda match: keep("code", f"`{' '.join(match[2].split())}`"), text)
    text = LINK.sub(lambda match: keep("link", f"({match[1]})", ""), text)
    text = FOOTNOTE.sub(lambda match: keep("footnote", match[0]), text)
    text = TAG.sub(tag, text) if "<" in text else text
    text = ENTITY.sub(" ", text)
    text = FIELD.sub(lambda match: keep("field", match[0]), text)
    for match in RULE_OF_TABLE.finditer(text):
        keep("table rule", "".join(match[0].split()))
    text = RULE_OF_TABLE.sub("", text)
    for match in ROW.finditer(text):
        keep("table row", f"of {match[0].count('|') - 1} cells")
    for match in ITEM.finditer(text) if lists else ():
        if match[3] and match.start() and not ITEM.match(text):
            continue  # a line of a paragraph, as "3. bölümde"
        keep("list item", match[1] + (match[2] or f"{match[3]}."))
    text = ITEM.sub("", text) if lists else text
    for match in HEADING.finditer(text):
        keep("heading", match[1])
    text = HEADING.sub("", text)
    return marks, text


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
