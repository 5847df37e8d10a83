"""MyST's markup as plain Markdown.

What is markup is found by the parser that the book is built with. It says where each piece
stands, and that piece alone is replaced: all other text stays as it was written.
"""

import re
from dataclasses import dataclass

from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

EXTENSIONS = {"amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"}
DROPPED = {"myst_line_comment", "myst_target", "myst_block_break"}
LITERAL = {"code", "code-block", "code-cell", "sourcecode", "math", "raw"}  # no markup inside
_DIRECTIVE = re.compile(r"\{([\w:.-]+)\}[ \t]*(.*)")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_UNTRANSLATED = re.compile(r"^[ \t]*\{\.untranslated[^}\n]*\}\n", re.MULTILINE)  # tools.editions
_OPTION = re.compile(r":([\w-]+):[ \t]*(.*)")


class UnknownMarkupError(ValueError):
    """A page has markup that would reach the reader as it is."""


@dataclass
class Directive:
    """A fence with a name: what follows the name, the options, the text inside."""

    name: str
    argument: str
    options: dict
    body: str


def _recording(rule, name):
    """Wrap a rule of the inline parser: it notes where what it found begins and ends."""

    def record(state, silent):
        start = state.pos
        found = rule(state, silent)
        notes = state.env.get("found")
        if found and not silent and notes is not None and state.src is state.env["text"]:
            token = state.tokens[-1]
            if name == "link":
                token = next(t for t in reversed(state.tokens) if t.type == "link_open")
            notes.append((name, start, state.pos, token))
        return found

    return record


def make_parser():
    """Return the book's parser, which notes where roles, links, pictures and attributes are."""
    parser = create_md_parser(MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML)
    rules = {rule.name: rule for rule in parser.inline.ruler.__rules__}
    for name in ("myst_role", "link", "image", "attr"):
        parser.inline.ruler.at(name, _recording(rules[name].fn, name))
    return parser


PARSER = make_parser()


def parse(text):
    """Return a text's block tokens, and what the parser knows of it."""
    env = {}
    return PARSER.parse(text, env), env


def inline_markup(content, env):
    """Return what is found in the text of one block: name, start, end and token of each."""
    env = {**env, "found": [], "text": content}
    PARSER.inline.parse(content, PARSER, env, [])
    return sorted(env["found"], key=lambda found: found[1:3])


def directive(token):
    """Return what a fence is if it is a directive, else None."""
    if token.type not in ("fence", "colon_fence"):
        return None
    match = _DIRECTIVE.match(token.info.strip())
    if not match:
        return None
    options, lines = {}, token.content.rstrip("\n").split("\n")
    while lines and (option := _OPTION.fullmatch(lines[0].strip())):
        options[option[1]] = option[2].strip()
        lines.pop(0)
    return Directive(match[1], match[2].strip(), options, "\n".join(lines).strip("\n"))


def math_label(token):
    """Return the label of a formula, or None."""
    return token.info if token.type == "math_block_label" else None


class _Positions:
    """Where the text of a block's lines stands in the whole text, whatever is before it."""

    def __init__(self, text):
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.cursors = {}

    def of(self, token):
        """Return, for each character of a token's text, where it stands (and where it ends)."""
        where, number = [], token.map[0]
        for piece in token.content.split("\n"):
            while piece and self._find(piece, number) < 0:
                number += 1
            column = max(0, self._find(piece, number))
            start = self.starts[number] + column
            where += range(start, start + len(piece) + 1)  # the end of the line as well
            self.cursors[number] = column + len(piece)
            number += 1
        return where

    def _find(self, piece, number):
        return self.lines[number].find(piece, self.cursors.get(number, 0))


def convert(text, context):
    """Return a text with MyST's markup as plain Markdown.

    Parameters
    ----------
    text : str
    context : object
        Says what takes the place of markup: ``context.directive(directive)``, ``context.role(name,
        content)``, ``context.link(target, is_empty)`` (a new target and a text),
        ``context.picture(target)`` and ``context.formula(label)``.
    """
    text = _UNTRANSLATED.sub("", text)
    tokens, env = parse(text)
    positions, edits = _Positions(text), []
    for token in tokens:
        if token.type == "inline":
            edits += _inline_edits(token, env, positions, context)
        elif token.map:
            edits += _block_edits(token, positions, context)
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text.strip("\n")


def _inline_edits(token, env, positions, context):
    found = inline_markup(token.content, env)
    where = positions.of(token)
    for name, start, end, parsed in found:
        if name == "myst_role":
            yield where[start], where[end], context.role(parsed.meta["name"], parsed.content)
        elif name == "attr":
            yield where[start], where[end], ""
        else:
            tail = _tail(token.content[start:end])
            if tail is None:
                continue
            empty = tail == (1 if name == "link" else 2)
            yield _new_target(name, parsed, empty, (where[start + tail], where[end]), context)


def _tail(source):
    """Return where the end of a link's or picture's text stands, None if no target follows."""
    source = _CODE.sub(lambda code: "`" * len(code[0]), source)  # its brackets are no ends
    depth = 0
    for index, character in enumerate(source):
        depth += (character == "[") - (character == "]")
        if character == "]" and depth == 0:
            return index if source[index + 1 : index + 2] == "(" else None
    return None


def _new_target(name, parsed, empty, place, context):
    if name == "image":
        return *place, f"]({context.picture(parsed.attrs['src'])})"
    new, text = context.link(parsed.attrs["href"], empty)
    return *place, f"{text}]({new})"


def _block_edits(token, positions, context):
    first, last = token.map
    while last > first + 1 and not positions.lines[last - 1].strip():
        last -= 1
    last = max(last, first + 1)
    start, end = positions.starts[first], positions.starts[last] - 1
    indent = re.match(r"[ \t]*", positions.lines[first])[0]
    if token.type in DROPPED:
        yield start, end, ""
    elif label := math_label(token):
        formula = f"$$\n{token.content.strip()}\n{context.formula(label)}\n$$"
        yield start, end, _indented(formula, indent)
    elif found := directive(token):
        before = "\n" if first and positions.lines[first - 1].strip() else ""
        after = "\n" if last < len(positions.lines) and positions.lines[last].strip() else ""
        new = _indented(context.directive(found), indent)
        yield start, end, f"{before}{new}{after}"
    elif token.type == "dt_open":  # lists of definitions become plain lists
        yield start, start, "- **"
        yield end, end, "**  "
    elif token.type == "dd_open":
        while not (line := positions.lines[first]).lstrip().startswith((":", "~")):
            first += 1
        column = positions.starts[first] + len(line) - len(line.lstrip())
        yield column, column + 1, " " if line.lstrip()[1:2] == " " else "  "


def _indented(text, indent):
    return "\n".join(indent + line if line else line for line in text.split("\n"))
