"""What the book's pages offer to take home; an extension of Sphinx.

The button of a chapter delivers the reader's notebook in place of the source, and an archive with
all that the notebook needs: pictures, scripts, the package.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nbformat
from sphinx.util import logging

from tools.readers import build
from tools.readers.book import Book

FOLDER = "downloads"
PACKAGE = ("d2lmini", "simgpu", "pyproject.toml", "README.md", "LICENSE")
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
    wheel = build_wheel(book.root, folder / FOLDER)
    licences = {name: book.root / name for name in LICENCES}
    for page in pages:
        source = book.pages[page.page]
        if not source.is_chapter:
            continue
        own = build.with_install_cell(page, wheel)
        files = {page.file: written(own), wheel: folder / FOLDER / wheel}
        archive(folder / FOLDER / f"{page.name}.zip", {**files, **page.files, **licences})
        button = folder / "_sources" / f"{source.name}.ipynb"
        button.parent.mkdir(parents=True, exist_ok=True)
        button.write_bytes(written(build.with_pictures_inside(own, page.files, cache)))


def finish(app, exception):
    """Replace the sources that Sphinx has copied, once all pages are written."""
    if exception or app.builder.name != "html":
        return
    book = Book(app.srcdir)
    for problem in other_numbers(book, app.env.toc_fignumbers):
        logger.warning(problem)
    cache = Path(app.srcdir) / "_build" / "pictures"
    offer(book, build.build_all(book, cache), Path(app.outdir), cache)


def other_numbers(book, numbers):
    """Yield what is numbered otherwise in the book than in the readers' notebooks."""
    for page in book.pages.values():
        for ours, theirs in KINDS.items():
            here = sorted(t.number for t in page.targets.values() if t.kind == ours)
            there = numbers.get(page.name, {}).get(theirs, {}).values()
            there = sorted(".".join(map(str, number)) for number in there)
            if here != there:
                yield f"{page.name}: {ours}s {there} have the numbers {here} in the notebook"


def add_button(app, pagename, templatename, context, doctree):
    """Add the archive to a chapter's downloads."""
    if context.get("page_source_suffix") != ".ipynb":
        return
    for group in context.get("header_buttons", []):
        if group.get("label") != "download-buttons":
            continue
        group["buttons"][0]["tooltip"] = "The notebook, pictures included"
        name = pagename.rpartition("/")[2]
        button = {
            "type": "link",
            "url": context["pathto"](f"{FOLDER}/{name}.zip", 1),
            "text": ".zip",
            "icon": "fas fa-file-archive",
            "tooltip": "The notebook with all that it needs to run",
            "label": "download-archive-button",
        }
        group["buttons"].insert(1, button)


def setup(app):
    """Register with Sphinx."""
    app.connect("html-page-context", add_button, priority=502)  # after the theme's own
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
