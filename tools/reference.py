"""The page of checkers in the reference: ``python -m tools.reference`` writes it.

The chapters say which checkers there are, and their exercises in which order; the other pages of
``api/`` are written by hand.
"""

import importlib
from pathlib import Path

import nbformat

from tools.classroom import exercises, imported
from tools.readers.book import page_numbers

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "api" / "checkers.md"
HEAD = """\
# Checkers

Each checker runs a solution of an exercise and either says what is wrong with it or prints that it passed. The source of a checker lists common mistakes; the solutions are in the chapters.
"""  # noqa: E501
SECTION = """
## {module}

For the exercises of [](../chapters/{chapter}.ipynb).

```{{eval-rst}}
.. currentmodule:: {module}
.. autosummary::
   :nosignatures:

{names}
```
"""


def chapters():
    """Return the paths of all notebooks, in the book's order."""
    return [path for name in page_numbers(ROOT) if (path := ROOT / f"{name}.ipynb").exists()]


def checkers(module):
    """Return the names of a chapter's checkers."""
    return [name for name in vars(importlib.import_module(module)) if name.startswith("check_")]


def page():
    """Return the page."""
    text = HEAD
    for path in chapters():
        notebook = nbformat.read(path, as_version=4)
        calls = [call for exercise in exercises(notebook).values() for call in exercise.calls]
        for module in sorted(set(imported(notebook).values())):
            order = [name for _, name, _ in calls] + checkers(module)
            names = sorted(checkers(module), key=order.index)
            names = "\n".join(f"   {name}" for name in names)
            text += SECTION.format(module=module, chapter=path.stem, names=names)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
