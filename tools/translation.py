"""Compare the chapters with a copy of the original: ``python -m tools.translation ORIGINAL``.

Text and strings may differ. Cells, tags, code and all names that a text uses may not.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from itertools import zip_longest
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
ROLE = re.compile(r"\{([\w:]+)\}`(?:[^`<]*<)?([^`>]+)>?`")
LABEL = re.compile(r"^\(([\w-]+)\)=$|^\$\$ \(([\w-]+)\)$", re.MULTILINE)
FIGURE = re.compile(r"^:{3,}\{figure-md\} (\S+)", re.MULTILINE)


def skeleton(source):
    """Return a cell's code without strings and comments, as text."""
    source = re.sub(r"^[%!].*$", "pass", source, flags=re.MULTILINE)
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def names(source):
    """Return the names that a text refers to or defines, with the number of their uses."""
    found = [f"{role} {name.strip()}" for role, name in ROLE.findall(source)]
    found += [f"label {one or other}" for one, other in LABEL.findall(source)]
    return Counter(found + [f"figure {name}" for name in FIGURE.findall(source)])


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


def main(arguments=None):
    """Command line: prints what differs; returns 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("original", type=Path, help="a copy of the repository it comes from")
    options = parser.parse_args(arguments)
    found = list(compare(options.original, ROOT))
    print(*found or ["the chapters have the same cells, code and names"], sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
