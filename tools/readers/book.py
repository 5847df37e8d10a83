"""The pages of the book: what they can be referred to by, and the numbers of their figures."""

import json
import posixpath
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from urllib.parse import quote

import nbformat
import yaml

from tools.readers import markup
from tools.words import say

ROOT = Path(__file__).parents[2]
REST = "reference"  # the folder of the notebooks that are no chapters


@dataclass
class Target:
    """Something to refer to: which page, the heading above it, its number or title."""

    page: "Page"
    kind: str  # "section", "figure", "equation" or "table"
    heading: str
    number: str = ""  # "3", or "2.3" where chapters are numbered

    @property
    def text(self):
        """Return what a reference to it says."""
        if not self.number or self.kind not in ("figure", "equation", "table"):
            return self.heading
        if self.kind == "equation":
            return f"({self.number})"
        if self.kind == "table":
            return say("Table {number}", number=self.number)
        return say("Fig. {number}", number=self.number)


@dataclass
class Page:
    """A page of the book, and the notebook that readers get of it."""

    name: str  # as in _toc.yml: "chapters/devices"
    path: Path
    notebook: nbformat.NotebookNode
    chapter: int = 0  # its number, if it has one
    is_front: bool = False
    title: str = ""
    targets: dict = field(default_factory=dict)
    labels: list = field(default_factory=list)  # of figures and formulas, in order
    headings: dict = field(default_factory=dict)  # by what links between pages call them

    @property
    def file(self):
        """Return the place of the notebook that is built of it; chapters are in reading order."""
        return place_of(self.name, self.chapter, self.is_front)

    @property
    def is_chapter(self):
        """Return whether it has cells to run."""
        return self.path.suffix == ".ipynb"

    def path_to(self, other):
        """Return how its notebook refers to another page's; nothing for its own."""
        start = posixpath.dirname(self.file) or "."
        return "" if other is self else posixpath.relpath(other.file, start)

    def anchor(self, heading):
        """Return what its notebook calls the place of a heading."""
        is_title = self.chapter and heading == self.title
        return anchor(f"{self.chapter}. {heading}" if is_title else heading)

    def texts(self):
        """Return the sources of its Markdown cells."""
        return [cell.source for cell in self.notebook.cells if cell.cell_type == "markdown"]


def place_of(name, chapter=0, is_front=False):
    """Return the place of the notebook that is built of a page.

    Examples
    --------
    >>> place_of("chapters/devices", 1), place_of("api/checkers")
    ('01-devices.ipynb', 'reference/api-checkers.ipynb')
    """
    stem = name.replace("/", "-").removeprefix("chapters-")
    return f"{chapter:02d}-{stem}.ipynb" if chapter or is_front else f"{REST}/{stem}.ipynb"


def read_page(root, name, chapter=0):
    """Read a page, a notebook or a Markdown file."""
    path = root / f"{name}.ipynb"
    if path.exists():
        return Page(name, path, nbformat.read(path, as_version=4), chapter)
    path = root / f"{name}.md"
    cell = nbformat.v4.new_markdown_cell(path.read_text(encoding="utf-8"))
    return Page(name, path, nbformat.v4.new_notebook(cells=[cell]), chapter)


def page_numbers(root):
    """Return the pages' names in the book's order, each with its chapter's number or 0."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    every = toc.get("defaults", {}).get("numbered") or toc.get("options", {}).get("numbered")
    pages, count = {toc["root"]: 0}, 0

    def below(entry, number):
        pages[entry["file"]] = number
        for section in entry.get("sections", []):
            below(section, number)

    for part in toc.get("parts", [toc]):
        is_numbered = part.get("numbered", every)
        for entry in part.get("chapters", part.get("sections", [])):
            count += bool(is_numbered)
            below(entry, count if is_numbered else 0)
    return pages


class Book:
    """All pages; numbers run through the book, or through each chapter if these are numbered."""

    def __init__(self, root=ROOT):
        self.root = Path(root)
        numbers = page_numbers(self.root)
        self.pages = {name: read_page(self.root, name, n) for name, n in numbers.items()}
        next(iter(self.pages.values())).is_front = True
        self.targets, self.counts = {}, Counter()
        for page in self.pages.values():
            self._look_through(page)
            self.targets.update(page.targets)

    def _look_through(self, page):
        """Record what a page can be referred to by."""
        heading, waiting = "", []
        for text in page.texts():
            for token, following in _with_following(text):
                if token.type == "heading_open":
                    heading = plain(following.content)
                    page.headings[slug(heading)] = heading
                    page.title = page.title or heading
                    for label in waiting:
                        page.targets[label] = Target(page, "section", heading)
                    waiting = []
                elif token.type == "myst_target":
                    waiting.append(token.content)
                elif numbered := _numbered(token):
                    kind, label = numbered
                    self.counts[kind, page.chapter] += 1
                    number = str(self.counts[kind, page.chapter])
                    number = f"{page.chapter}.{number}" if page.chapter else number
                    page.targets[label] = Target(page, kind, heading, number)
                    page.labels.append(label)

    def resolve(self, page, target):
        """Return the page that a link's path leads to from a page, or None."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.name), target))
        return self.pages.get(posixpath.splitext(path)[0])


def _with_following(text):
    """Yield each block token with the next one, those inside of directives as well."""
    tokens, _ = markup.parse(text)
    for token, following in zip_longest(tokens, tokens[1:]):
        yield token, following
        found = markup.directive(token)
        if found and found.name not in markup.LITERAL:
            yield from _with_following(found.body)


def _numbered(token):
    """Return kind and label of what has a number, else None."""
    if label := markup.math_label(token):
        return "equation", label
    found = markup.directive(token)
    if not found:
        return None
    if found.name == "math" and "label" in found.options:
        return "equation", found.options["label"]
    if found.name in ("figure", "figure-md"):
        own = found.argument if found.name == "figure-md" else found.options.get("name")
        return "figure", own or f"figure of {found.argument}"
    return None


def plain(text):
    """Return a heading as a reader sees it, without code's and emphasis' marks."""
    return re.sub(r"[`*\\]", "", text).strip()


def slug(heading):
    """Return what a link between pages of the book calls a heading, in English in all editions."""
    words = re.sub(r"\$[^$]*\$", "", english(heading))
    return re.sub(r"[^\w\- ]", "", words.lower().replace(" ", "-"))


def english(heading):
    """Return the English words of a heading in a translated copy of the book; else these words."""
    return english_headings(ROOT).get(heading, heading)


@cache
def english_headings(root):
    """Return the English headings of a translated copy, by all that a heading is called."""
    path = root / "slugs.json"
    if not path.exists():
        return {}
    pairs = json.loads(path.read_text(encoding="utf-8")).items()
    forms = (  # here, by Sphinx, and by MyST where it makes an anchor
        plain,
        lambda heading: plain(heading).replace("$", ""),
        lambda heading: re.sub(r"\$[^$]*\$", "", plain(heading)),
    )
    return {form(own): form(source) for form in forms for own, source in pairs}


def anchor(heading):
    """Return what JupyterLab calls the place of a heading."""
    return "#" + quote(heading.replace(" ", "-"), safe=":,;!?'&=+$/")
