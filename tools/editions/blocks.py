"""A page as blocks: what is translated as a whole, and found again when it is moved.

A block is a heading, a paragraph, an item of a list, a table, an entry of the glossary, the opening
of a directive with its title and options, code with comments, or a displayed formula with words.
Joined by newlines, the blocks of a text are the text again.
"""

import hashlib
import re

TITLED = {"admonition", "card", "dropdown", "grid-item-card", "guess", "tab-item"}
SAID = {"alt", "answer"}  # options that a reader sees
_DIRECTIVE = re.compile(r":{3,}\{(?P<name>[\w-]+)\} ?(?P<title>.*)")
_STARTS = re.compile(r":{3,}|%|\(.*\)=$|#")  # a line that is a block of its own, or begins one
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_TIME_LINE = re.compile(r"\*\d+ minutes? to read[^*]*\*$")
_EXERCISE_LINE = re.compile(r"\*[^*]+, (?:easy|medium|hard), \d+ minutes\.\*$")
ROLE = re.compile(r"\{[\w:]+\}`[^`]*`")
TAG = re.compile(r"<[^>]*>")
_NO_WORDS = re.compile(rf"\$[^$]*\$|`[^`]*`|\]\([^)]*\)|{TAG.pattern}|&\w+;")
WORD = re.compile(r"[^\W\d_]{2,}")
_FOR_TOOLS = re.compile(r"noqa|fmt: |type: |pragma")  # such comments are no words
COMMENT = re.compile(  # on lines of its own, or behind code
    r"^(?P<indent>[ ]*)# (?P<own>.+(?:\n(?P=indent)# .+)*)|(?<=[ ]{2})# (?P<behind>.+)$",
    re.MULTILINE,
)


def digest(block):
    r"""Return the name of a block, which does not change when its lines are wrapped anew.

    Examples
    --------
    >>> digest("Two GPUs\nare faster.") == digest("Two GPUs are faster.")
    True
    """
    return hashlib.sha256(" ".join(block.split()).encode()).hexdigest()[:8]


def split(source):
    r"""Return the blocks of a Markdown text.

    Parameters
    ----------
    source : str

    Returns
    -------
    list of str
        Lines between which nothing is translated are blocks as well.

    Examples
    --------
    >>> split("# Title\n\nOne line\nand another.\n- An item.")
    ['# Title', '', 'One line\nand another.', '- An item.']
    """
    blocks, block, closing, in_glossary = [], [], None, False

    def end():
        if block:
            blocks.append("\n".join(block))
            block.clear()

    for line in source.split("\n"):
        if closing:
            block.append(line)
            if line.startswith(closing):
                closing = None
                end()
        elif line == "```{glossary}" or not line.strip() or (in_glossary and line == "```"):
            end()
            blocks.append(line)
            in_glossary = line == "```{glossary}" or (in_glossary and not line.strip())
        elif line.startswith("```") or re.match(r"\$\$(?!.+\$\$)", line):
            end()
            block.append(line)
            closing = "```" if line[0] == "`" else "$$"
        elif line.startswith("$$"):
            end()
            blocks.append(line)
        elif _STARTS.match(line):
            end()
            block.append(line)
            if not _DIRECTIVE.match(line):
                end()
        elif block and _DIRECTIVE.match(block[0]) and not line.startswith(":"):
            end()
            block.append(line)
        else:
            if block and _ITEM.match(line):
                end()
            block.append(line)
    end()
    return blocks


def has_words(block):
    r"""Return whether there is something to translate in a block.

    Examples
    --------
    >>> [has_words(b) for b in ("(eq-ring)=", "$$x = 1$$", "We add.", "```\nls\n```")]
    [False, False, True, False]
    """
    if re.match(r"%|\(.*\)=$", block) or is_written_by_tools(block):
        return False
    if block.startswith("```"):
        return bool(comments(block))
    if block.startswith("$$"):
        return r"\text{" in block
    if opening := _DIRECTIVE.match(block):
        block = words_of_directive(opening, block)
    return bool(WORD.search(_NO_WORDS.sub("", ROLE.sub("", block))))


def is_written_by_tools(block):
    """Return whether it is a line of minutes: tools write it in the edition's words."""
    return bool(_TIME_LINE.match(block) or _EXERCISE_LINE.match(block))


def words_of_directive(opening, block):
    """Return what a reader sees of the opening of a directive."""
    said = [opening["title"]] if opening["name"] in TITLED else []
    for name, value in re.findall(r"^:(\w+): *(.*)$", block, re.MULTILINE):
        if name in SAID:
            said.append(value)
    return " ".join(said)


def comments(code):
    r"""Return the comments of code that have words, each run of lines as one.

    Examples
    --------
    >>> comments("# One sentence\n# on two lines\nx = 1  # a number")
    ['One sentence\non two lines', 'a number']
    """
    found = [comment_of(match) for match in COMMENT.finditer(code)]
    return [
        comment
        for comment in found
        if WORD.search(_NO_WORDS.sub("", comment)) and not _FOR_TOOLS.match(comment)
    ]


def comment_of(match):
    """Return the words of a comment that `COMMENT` has found."""
    if match["behind"]:
        return match["behind"]
    return re.sub(r"\n *# ", "\n", match["own"])
