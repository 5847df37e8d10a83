"""A book of two small chapters with every kind of markup, for tests of what readers get of it."""

from functools import cache

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

TOC = """\
format: jb-book
root: intro
parts:
  - caption: Chapters
    numbered: true
    chapters:
      - file: chapters/one
  - caption: The rest
    chapters:
      - file: chapters/two
"""
INTRO = """\
# A small book

[The first](chapters/one.ipynb)
: What it is *about*.
  More.

[](chapters/two.ipynb)
: The other.
"""
SOURCES = r"""
@article{curie1911radium, author = {Curie, Marie and Doll{\'a}r, Piotr}, title = {On {Radium}},
  journal = {Letters}, year = {1911}, doi = {10.1/a_b}}
@misc{three2020, author = {A, B. and C, D. and E, F.}, title = {Three}, year = {2020},
  url = {https://example.org/three}}
"""
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"/>'
FIRST = """\
# The first chapter

*3 minutes to read, 1 minute to run.*

A run takes {glue:text}`seconds` s, or {glue:text}`seconds:.1f`, as {cite:t}`curie1911radium` say
{cite:p}`three2020, curie1911radium`. See {numref}`fig-b`, {eq}`eq-a` and {ref}`sec-end`.

:::{figure-md} fig-a
![A box with $x$](img/a.svg)

The *first* figure {cite}`three2020`.
:::
Text that follows at once; `{glue:text}` in code stays.
"""
SECOND = """\
(sec-end)=
## The end: what remains

% A remark to authors.

$$
x = 1
$$ (eq-a)

:::{dropdown} Prerequisites
Some {glue:text}`seconds` and

```python
{cite}`this is code`


x = 1
```
:::

````{note}
A box.

```{tip} Of its own
Inside.
```
````

| a | b |
| --- | --- |
| {glue:text}`seconds` | [two](two.ipynb) and [the end](#sec-end) |
"""
EXERCISES = """\
## Exercises

Try your own.

### Exercise 1: Add

Write `add`.
"""
TWO = """\
# The second chapter

The first took {glue:text}`one.ipynb::seconds:s` s, about {glue:text}`one.ipynb::seconds:.0f`.
Back to [one](one.ipynb), [](#sec-end) and {numref}`figure %s <fig-a>`.

::::{dropdown} More
:::{figure-md} fig-b
![](img/a.svg)

Second.
:::

```{code-block} text
:::{figure-md} no-figure
```
::::

:::{figure-md} fig-c
![](img/a.svg)

Third.
:::
"""


@cache
def timeline():
    """Return what a small timeline shows in a notebook."""
    import torch

    from d2lmini import gpus, record

    devices = gpus(1, gpu="a100", quiet=True)
    x = torch.ones(64, 64, device=devices[0])
    with record(*devices) as recording:
        (x @ x).sum().item()
    return recording.timeline._repr_html_()


def glued(name, value):
    """Return the output that stores a number for the text."""
    data = {"application/papermill.record/text/plain": repr(value)}
    return new_output("display_data", data, metadata={"scrapbook": {"name": name}})


def code(source, *outputs, tags=()):
    """Return a code cell that was run."""
    cell = new_code_cell(source, execution_count=1, outputs=list(outputs))
    cell.metadata.tags = list(tags)
    return cell


def first_chapter():
    """Return the notebook of the first chapter."""
    said = new_output("stream", name="stdout", text="3\n")
    picture = new_output("execute_result", {"text/html": timeline(), "text/plain": "Timeline"})
    solution = "# Solution\ndef add(a, b):\n    return a + b\n\n\nprint(add(1, 2))"
    cells = [
        new_markdown_cell(FIRST),
        code("# Imports\nimport math\nfrom myst_nb import glue", tags=["hide-input", "imports"]),
        code(
            "glue('seconds', 1.25, display=False)", glued("seconds", "1.25"), tags=["remove-cell"]
        ),
        code("run()", picture),
        code(
            "# Checked: x is <2> times *y*.\nassert math.pi > 3", said, tags=["check", "hide-cell"]
        ),
        code("1 / 0", tags=["raises-exception", "nbval-ignore-output"]),
        code("!python scripts/run.py"),
        new_markdown_cell(SECOND),
        new_markdown_cell(EXERCISES),
        code(solution, said, tags=["hide-cell", "solution"]),
        new_markdown_cell("It could also be `sum`."),
        new_markdown_cell("### Exercise 2: Think\n\nWhy?"),
    ]
    return new_notebook(cells=cells)


def write(root):
    """Write the book into a folder; return the folder."""
    for folder in ("chapters/img", "chapters/scripts"):
        (root / folder).mkdir(parents=True)
    texts = {
        "_toc.yml": TOC,
        "intro.md": INTRO,
        "references.bib": SOURCES,
        "chapters/img/a.svg": PICTURE,
        "chapters/scripts/run.py": "print(1)\n",
    }
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")
    nbformat.write(first_chapter(), root / "chapters" / "one.ipynb")
    nbformat.write(new_notebook(cells=[new_markdown_cell(TWO)]), root / "chapters" / "two.ipynb")
    return root
