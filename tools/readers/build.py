"""From the pages of the book to notebooks for readers."""

import base64
import copy
import mimetypes
import posixpath
import re
from dataclasses import dataclass, field

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

from tools.notebooks import METADATA
from tools.readers import cells, pictures, text
from tools.readers.covered import without_answers
from tools.readers.numbers import without_numbers
from tools.readers.sources import Sources
from tools.words import say
from tools.words.lines import time_line

_PICTURE = re.compile(r"(!\[(?:[^\]\\]|\\.)*\]\()(img/[^)\s]+)\)")


@dataclass
class Built:
    """A page as readers get it: a notebook, and the files that belong beside it by their places."""

    file: str  # its place below the folder of all notebooks
    page: str  # its name in the book
    notebook: nbformat.NotebookNode
    files: dict = field(default_factory=dict)

    @property
    def name(self):
        """Return the notebook's name, without its folder."""
        return posixpath.basename(self.file).removesuffix(".ipynb")

    @property
    def placed(self):
        """Return its files by their places below the folder of all notebooks."""
        folder = posixpath.dirname(self.file)
        return {posixpath.join(folder, name): path for name, path in self.files.items()}

    @property
    def content(self):
        """Return the notebook as the bytes of its file."""
        return (nbformat.writes(self.notebook) + "\n").encode()


def build_page(book, page, cache=None):
    """Build one page.

    Parameters
    ----------
    book : tools.readers.book.Book
    page : tools.readers.book.Page
    cache : pathlib.Path, optional
        A folder of pictures that were drawn before.

    Returns
    -------
    Built
    """
    sources = Sources(book.root / "references.bib")
    words = text.PageText(book, page, sources)
    shown = without_numbers(without_answers(page.notebook.cells))
    built = [new for cell in shown for new in cells.convert(cell, words, cache)]
    built = cells.with_own_cells(cells.split_exercises(built))
    if words.cited and page.is_chapter:
        built.append(new_markdown_cell(f"## {say('Sources')}\n\n{sources.listed(words.cited)}"))
    if page.chapter:
        built[0].source = re.sub("^# ", f"# {page.chapter}. ", built[0].source)
    if words.numbers:
        say_whose_numbers(built)
    files = dict(words.files)
    if page.is_chapter:
        files |= scripts(book, built) | style(book, built)
    return Built(page.file, page.name, notebook(built), files)


def say_whose_numbers(built):
    """Say under the title, beside the time to read, which numbers the text has; in place."""
    said = say(
        "The numbers in the text are those of the stored outputs; a run does not change them."
    )
    first = built[0].source
    if line := time_line(first):
        built[0].source = f"{first[: line.end()]} *{said}*{first[line.end() :]}"
    else:
        built.insert(1, new_markdown_cell(f"*{said}*"))


def notebook(built):
    """Return a notebook of cells, whose ids depend on their order alone."""
    for number, cell in enumerate(built):
        cell.id = f"cell-{number:03d}"
    return nbformat.v4.new_notebook(cells=built, metadata=METADATA)


def scripts(book, built):
    """Return the scripts beside the chapters if any cell names one."""
    folder = book.root / "chapters" / "scripts"
    if not any("scripts/" in cell.source for cell in built):
        return {}
    return {f"scripts/{path.name}": path for path in sorted(folder.glob("*.py"))}


def style(book, built):
    """Return the file that says how plots look if any cell draws one."""
    path = book.root / "chapters" / "matplotlibrc"
    draws = any("pyplot" in cell.source for cell in built)
    return {path.name: path} if draws and path.exists() else {}


def build_all(book, cache=None):
    """Build all pages, in the book's order."""
    return [build_page(book, page, cache) for page in book.pages.values()]


def with_install_cell(page, wheel):
    """Return a page's notebook for whoever has neither the repository nor its environment."""
    if any(place.startswith("scripts/") for place in page.files):
        said = say(
            "Once, where d2lmini is not installed: put the wheel beside this notebook\n"
            "({name}.zip, which the book's page offers, has it and the pictures and scripts),\n"
            "and run the next line without its first two characters.",
            name=page.name,
        )
    else:
        said = say(
            "Once, where d2lmini is not installed: put the wheel beside this notebook\n"
            "({name}.zip, which the book's page offers, has it and the pictures),\n"
            "and run the next line without its first two characters.",
            name=page.name,
        )
    return _installing(page, said, f"'./{wheel}[notebooks]'")


def among_all(page, wheel):
    """Return a page's notebook for the archive of all, which has the wheel in its first folder."""
    path = posixpath.relpath(wheel, posixpath.dirname(page.file) or ".")
    said = say(
        "Once, where d2lmini is not installed: run the next line without its first two\ncharacters."
    )
    return _installing(page, said, f"'./{path}[notebooks]'")


def _installing(page, said, what):
    """Return a page's notebook with a first program that says how something is installed."""
    lines = [*said.split("\n"), f"%pip install {what}"]
    program = "\n".join(f"# {line}" for line in lines)
    own = nbformat.from_dict(page.notebook)
    own.cells = list(own.cells)
    for number, cell in enumerate(own.cells):
        if cell.cell_type == "code":
            own.cells.insert(number, new_code_cell(program, id="install"))
            break
    return own


def with_pictures_inside(own, files, cache=None):
    """Return a notebook with the pictures in its cells, for whoever downloads it alone.

    They are PNG there: JupyterLab shows no SVG that is inside a notebook.
    """
    own = copy.deepcopy(own)

    def inside(match):
        path = files[match[2]]
        name, data = path.name, path.read_bytes()
        if path.suffix == ".svg":
            name, data = f"{path.stem}.png", pictures.drawn(data.decode(), cache, zoom=1.5)
        kind = mimetypes.guess_type(name)[0]
        cell.setdefault("attachments", {})[name] = {kind: base64.b64encode(data).decode()}
        return f"{match[1]}attachment:{name})"

    for cell in own.cells:
        if cell.cell_type == "markdown":
            cell.source = _PICTURE.sub(inside, cell.source)
    return own
