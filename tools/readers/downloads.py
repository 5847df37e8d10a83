"""What the book's pages offer to take home; an extension of Sphinx.

A chapter's page offers the reader's notebook, and an archive with all that the notebook needs:
pictures, scripts, the package. The front page offers an archive of all notebooks. Every page can be
printed, chapters without their code, too.
"""

import os
import posixpath
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nbformat
from sphinx.util import logging

from tools.readers import build
from tools.readers.book import Book, page_numbers, place_of
from tools.words import say

FOLDER = "downloads"
ALL = "notebooks.zip"
PACKAGE = ("d2lmini", "simgpu", "pyproject.toml", "LICENSE")
LICENCES = ("LICENSE", "LICENSE-TEXT")
EPOCH = "1577836800"  # of all files in archives: the same files make the same archive
KINDS = {"figure": "figure", "equation": "displaymath"}  # ours, and as Sphinx calls them
logger = logging.getLogger(__name__)


def build_wheel(root, folder):
    """Build the package from a copy of its sources; return the wheel's name."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in PACKAGE:
            copy = shutil.copytree if (root / name).is_dir() else shutil.copy
            copy(root / name, Path(scratch) / name)
        code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
        built = Path(scratch) / "built"
        subprocess.run(
            [sys.executable, "-c", code, str(built)],
            cwd=scratch,
            env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
            check=True,
            capture_output=True,
        )
        (wheel,) = built.glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, folder / wheel.name)
        return wheel.name


def written(own):
    """Return a notebook as the bytes of its file."""
    return (nbformat.writes(own) + "\n").encode()


def archive(path, files):
    """Write an archive of contents or files, by name; its bytes depend on them alone."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in sorted(files.items()):
            content = content if isinstance(content, bytes) else Path(content).read_bytes()
            target.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def offer(book, pages, folder, cache=None):
    """Write what the pages offer below the folder of the book's pages."""
    target = folder / FOLDER
    wheel = build_wheel(book.root, target)
    common = {name: book.root / name for name in LICENCES} | {wheel: target / wheel}
    everything = dict(common)
    for page in pages:
        is_chapter = book.pages[page.page].is_chapter
        own = build.among_all(page, wheel) if is_chapter else page.notebook
        everything |= {page.file: written(own), **page.placed}
        if is_chapter:
            own = build.with_install_cell(page, wheel)
            files = {f"{page.name}.ipynb": written(own), **page.files, **common}
            archive(target / f"{page.name}.zip", files)
            alone = build.with_pictures_inside(own, page.files, cache)
            (target / f"{page.name}.ipynb").write_bytes(written(alone))
    archive(target / ALL, everything)


def finish(app, exception):
    """Write what the pages offer, once all are written."""
    if exception or app.builder.name != "html":
        return
    book = Book(app.srcdir)
    for problem in other_numbers(book, app.env.toc_fignumbers):
        logger.warning(problem)
    cache = Path(app.srcdir) / "_build" / "pictures"
    offer(book, build.build_all(book, cache), Path(app.outdir), cache)
    shutil.rmtree(Path(app.outdir) / "_sources", ignore_errors=True)  # no page leads there


def other_numbers(book, numbers):
    """Yield what is numbered otherwise in the book than in the readers' notebooks."""
    for page in book.pages.values():
        for ours, theirs in KINDS.items():
            here = sorted(t.number for t in page.targets.values() if t.kind == ours)
            there = numbers.get(page.name, {}).get(theirs, {}).values()
            there = sorted(".".join(map(str, number)) for number in there)
            if here != there:
                yield f"{page.name}: {ours}s {there} have the numbers {here} in the notebook"


def link(url, text, tooltip, icon):
    """Return a button that leads to a file."""
    label = f"download-{icon}-button"
    look = {"icon": f"fas fa-{icon}", "tooltip": tooltip, "label": label}
    return {"type": "link", "url": url, "text": text, **look}


def printing(call, text, tooltip):
    """Return a button that prints the page."""
    look = {"icon": "fas fa-print", "tooltip": tooltip, "label": "download-print-button"}
    return {"type": "javascript", "javascript": call, "text": text, **look}


def offered(app, name, path):
    """Return what a page offers, as buttons.

    Parameters
    ----------
    app : sphinx.application.Sphinx
    name : str
        The page.
    path : callable
        Makes a link to a file of the book.
    """
    numbers = page_numbers(Path(app.srcdir))
    has_code = (Path(app.srcdir) / f"{name}.ipynb").exists()
    buttons = []
    if name == next(iter(numbers)):
        said = say("All notebooks, with the package, pictures and scripts")
        buttons.append(link(path(f"{FOLDER}/{ALL}"), say("All notebooks"), said, "file-archive"))
    if has_code:
        start = f"{FOLDER}/{posixpath.basename(place_of(name, numbers.get(name, 0)))}"
        start = path(start).removesuffix(".ipynb")
        whole = say("Notebook with package and pictures (Colab, Kaggle)")
        said = say("An archive with all that the notebook needs to run")
        alone = say("The notebook, pictures included")
        buttons += [
            link(f"{start}.ipynb", say("Notebook"), alone, "file"),
            link(f"{start}.zip", whole, said, "file-archive"),
        ]
    said = say("Print this page, or save it as PDF")
    buttons.append(printing("window.print()", say("Print"), said))
    if has_code:
        said = say("Text, pictures and outputs alone")
        buttons.append(printing("d2lPrint()", say("Print without code"), said))
    return buttons


def add_buttons(app, pagename, templatename, context, doctree):
    """Have a page's menu of downloads say in words what there is."""
    for group in context.get("header_buttons", []):
        if group.get("label") == "download-buttons":
            own = offered(app, pagename, lambda place: context["pathto"](place, 1))
            group["buttons"][:] = own


def setup(app):
    """Register with Sphinx."""
    app.connect("html-page-context", add_buttons, priority=502)  # after the theme's own
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
