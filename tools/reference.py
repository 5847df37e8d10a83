"""The page of checkers in the reference: ``python -m tools.reference`` writes it.

The chapters say which checkers there are and in which order; the other pages of ``api/`` are
written by hand.
"""

import importlib
from pathlib import Path

import nbformat

from tools.classroom import imported
from tools.costs import chapters

PAGE = Path(__file__).parents[1] / "api" / "checkers.md"
HEAD = """\
# Checkers

Each checker runs a solution of an exercise, says what is wrong with it, or prints that it passed. Their sources know the mistakes that people make; the solutions stand in the chapters.
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


def checkers(module):
    """Return the names of a module's checkers, in its order, without the parts of others."""
    here = importlib.import_module(module)
    named = getattr(here, "__all__", ())
    found = [(name, thing) for name, thing in vars(here).items() if name.startswith("check_")]
    return [name for name, thing in found if name in named or "._" not in thing.__module__]


def page():
    """Return the page."""
    text = HEAD
    for path in chapters():
        found = imported(nbformat.read(path, as_version=4)).values()
        for module in sorted(set(found)):
            names = "\n".join(f"   {name}" for name in checkers(module))
            text += SECTION.format(module=module, chapter=path.stem, names=names)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
