"""What the tools and scripts say to readers, in the language of the book.

The book is English. A copy in another language has a file ``words.json`` in its root: the English
of each string, and the string in that language. `say` looks there; ``assets/words.js`` does the
same for scripts. Both want the string itself, not a name for it, so that `found` can list all of
them. What stands in braces is filled in by name, and may stand elsewhere in another language.

What only authors see, and the names of GPUs, units and code, are not said by `say`. The lines that
programs write into the chapters are in `tools.words.lines`.
"""

import ast
import json
import re
from functools import cache, reduce
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = "words.json"
SCRIPTS = ("assets/*.js", "tools/**/*.js", "simgpu/timeline/scripts/*.js")
SAYING = ("say", "spellings")
EMPTY = "window.BOOK_WORDS = {};"  # in words.js; a copy has its table there
_FIELD = re.compile(r"\{(\w+)\}")
_IN_SCRIPT = re.compile(r'(?<![\w.])say\(\s*("(?:\\.|[^"\\])*"(?:\s*\+\s*"(?:\\.|[^"\\])*")*)')
_PIECE = re.compile(r'"(?:\\.|[^"\\])*"')
_FIRST_WORDS = re.compile(r"[^:\uff1a]*[:\uff1a]\s*")


@cache
def table():
    """Return the strings of this copy's language by their English; empty in the English book."""
    path = ROOT / FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def fill(text, values):
    """Return a text whose fields are replaced by values; fields without a value stay.

    Examples
    --------
    >>> fill("{n} of {all} {boxes}", {"n": 1, "all": 2})
    '1 of 2 {boxes}'
    """
    return _FIELD.sub(lambda field: str(values.get(field[1], field[0])), text)


def say(english, **values):
    """Return a string in the language of this copy, its fields filled in.

    Parameters
    ----------
    english : str
        A literal, so that `found` finds it.
    **values
        What stands in its fields.

    Examples
    --------
    >>> say("{n} pages", n=3)
    '3 pages'
    """
    return fill(table().get(english, english), values)


def chain(items, between):
    """Return items as one text.

    Parameters
    ----------
    items : list of str
    between : str
        What is ``before`` an ``item``, and the item; `say` has it.

    Examples
    --------
    >>> chain(["a", "b", "c"], "{before}; {item}")
    'a; b; c'
    """
    return reduce(lambda before, item: fill(between, {"before": before, "item": item}), items)


def spellings(english):
    """Return all that a string is called on the pages of this copy: in its language, in English.

    A paragraph that is not translated yet is English.
    """
    return tuple(dict.fromkeys([say(english), english]))


def pattern(text, **fields):
    """Return a regular expression that matches a string of this table, each field by name.

    Parameters
    ----------
    text : str
    **fields : str
        What matches a field; digits if it is not named.

    Examples
    --------
    >>> import re
    >>> re.fullmatch(pattern("{n} of {what}", what="[a-z]+"), "3 of pages").groupdict()
    {'n': '3', 'what': 'pages'}
    """
    parts = _FIELD.split(text)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [rf"(?P<{name}>{fields.get(name, '[0-9]+')})" for name in parts[1::2]]
    return "".join(parts)


def one_of(texts):
    r"""Return a regular expression that matches any of these texts.

    Examples
    --------
    >>> one_of(["Exercises", "a (b)"])
    '(?:Exercises|a\\ \\(b\\))'
    """
    return f"(?:{'|'.join(map(re.escape, texts))})"


def split_prompt(prompt):
    """Return the first words of a folded cell's first line, colon included, and what follows.

    Examples
    --------
    >>> split_prompt("Checked: a < b"), split_prompt("Imports")
    (('Checked: ', 'a < b'), ('', 'Imports'))
    """
    found = _FIRST_WORDS.match(prompt)
    return (found[0], prompt[found.end() :]) if found else ("", prompt)


def found(root=ROOT):
    """Return the English strings that the tools and scripts say, in order, each once."""
    strings = []
    for path in sorted((root / "tools").rglob("*.py")):
        strings += in_program(path.read_text(encoding="utf-8"), str(path))
    for place in SCRIPTS:
        for path in sorted(root.glob(place)):
            strings += in_script(path.read_text(encoding="utf-8"))
    return list(dict.fromkeys(strings))


def in_program(source, name="program"):
    """Return the strings that a program in Python says, in order."""
    strings = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and _name(node.func) in SAYING and node.args):
            continue
        if isinstance(node.args[0], ast.Constant):
            strings.append((node.lineno, node.col_offset, node.args[0].value))
        elif not (isinstance(node.args[0], ast.Name) and node.args[0].id == "english"):
            raise ValueError(f"{name}, line {node.lineno}: say() wants a literal string")
    return [string for _, _, string in sorted(strings)]


def _name(function):
    return getattr(function, "attr", getattr(function, "id", ""))


def in_script(source):
    """Return the strings that a script says, in order.

    Examples
    --------
    >>> in_script('say("a {n}", { n }); say("b" + "c"); x.say("d")')
    ['a {n}', 'bc']
    """
    return [
        "".join(json.loads(piece) for piece in _PIECE.findall(call[1]))
        for call in _IN_SCRIPT.finditer(source)
    ]


def fields(string):
    """Return the names of a string's fields.

    Examples
    --------
    >>> sorted(fields("{n} of {all}"))
    ['all', 'n']
    """
    return set(_FIELD.findall(string))


def problems(words, root=ROOT):
    """Yield what is wrong with a language's table, as sentences.

    Parameters
    ----------
    words : dict
        The strings by their English.
    root : pathlib.Path
        The repository.
    """
    known = found(root)
    for english in known:
        if english not in words:
            yield f"not translated: {english!r}"
        elif fields(words[english]) != fields(english):
            yield f"other fields in the translation of {english!r}: {words[english]!r}"
        elif any(words[english].count(mark) != english.count(mark) for mark in "*`<>"):
            yield f"other marks in the translation of {english!r}: {words[english]!r}"
    for english in words.keys() - set(known):
        yield f"nothing says {english!r} any more"


def script(words, root=ROOT):
    """Return ``assets/words.js`` with a language's table: of it, what scripts say."""
    strings = [s for place in SCRIPTS for path in sorted(root.glob(place)) for s in
               in_script(path.read_text(encoding="utf-8"))]  # fmt: skip
    own = {english: words[english] for english in strings if english in words}
    source = (root / "assets" / "words.js").read_text(encoding="utf-8")
    made = json.dumps(own, ensure_ascii=False, indent=0)
    return source.replace(EMPTY, f"window.BOOK_WORDS = {made};")


def load(app):
    """Have all pages load the script that says words, before those that use it.

    Parameters
    ----------
    app : sphinx.application.Sphinx
    """
    app.add_js_file("words.js", loading_method="defer", priority=100)
