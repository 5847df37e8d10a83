"""Compare the chapters of an edition with the English ones: only words may differ.

Cells, tags, code, outputs and all names that a text uses may not. In an output, a glued number may
be written as the language does.
"""

import ast
import re
from collections import Counter
from itertools import zip_longest

import nbformat

ROLE = re.compile(r"\{([\w:]+)\}`(?:[^`<]*<)?([^`>]+)>?`")
LABEL = re.compile(r"^\(([\w-]+)\)=$|^\$\$ \(([\w-]+)\)$", re.MULTILINE)
FIGURE = re.compile(r"^:{3,}\{figure-md\} (\S+)", re.MULTILINE)


def skeleton(source):
    """Return a cell's code without comments, as text."""
    source = re.sub(r"^[%!].*$", "pass", source, flags=re.MULTILINE)
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return source


def names(source):
    """Return the names that a text refers to or defines, with the number of their uses."""
    found = [f"{role} {name.strip()}" for role, name in ROLE.findall(source)]
    found += [f"label {one or other}" for one, other in LABEL.findall(source)]
    return Counter(found + [f"figure {name}" for name in FIGURE.findall(source)])


def printed(cell):
    """Return the outputs of a cell, without the values of glued numbers."""
    found = []
    for output in cell.outputs:
        if output.get("metadata", {}).get("scrapbook", {}).get("name"):
            output = {**output, "data": sorted(output["data"])}
        found.append(output)
    return found


def differences(original, translated):
    """Yield what differs between two notebooks, as sentences.

    Parameters
    ----------
    original, translated : nbformat.NotebookNode
    """
    for number, (one, other) in enumerate(zip_longest(original.cells, translated.cells), 1):
        if one is None or other is None:
            has = "an additional cell" if one is None else "no such cell"
            yield f"cell {number}: {has}"
        elif one.cell_type != other.cell_type:
            yield f"cell {number}: {other.cell_type} in place of {one.cell_type}"
        elif one.metadata.get("tags", []) != other.metadata.get("tags", []):
            yield f"cell {number}: other tags"
        elif one.cell_type == "code":
            if skeleton(one.source) != skeleton(other.source):
                yield f"cell {number}: other code"
            if printed(one) != printed(other):
                yield f"cell {number}: other outputs"
        elif missing := (names(one.source) - names(other.source)):
            yield f"cell {number}: not in the text: {', '.join(sorted(missing))}"
        elif added := (names(other.source) - names(one.source)):
            yield f"cell {number}: only in the translation: {', '.join(sorted(added))}"


def compare(original, translated):
    """Yield what differs between the chapters of two copies of the repository."""
    pages = sorted((original / "chapters").glob("*.ipynb"))
    if not pages:
        yield f"{original}: no chapters there"
    for path in pages:
        other = translated / "chapters" / path.name
        if not other.exists():
            yield f"{path.name}: not there"
            continue
        both = (nbformat.read(each, as_version=4) for each in (path, other))
        yield from (f"{path.name}, {difference}" for difference in differences(*both))
