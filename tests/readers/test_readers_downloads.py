"""What the book's pages offer: a notebook that stands alone, an archive, a package to install."""

import base64
import email
import io
import os
import re
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image
from support.paths import ROOT
from support.samples import small_book

from tools.readers import build, downloads
from tools.readers.book import Book


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the package's wheel once; return its path."""
    folder = tmp_path_factory.mktemp("wheel")
    return folder / downloads.build_wheel(ROOT, folder)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    root = small_book.write(tmp_path_factory.mktemp("book"))
    for name in downloads.LICENCES:
        (root / name).write_text("Free.\n")
    return Book(root)


@pytest.fixture(scope="module")
def offered(book, tmp_path_factory):
    """Offer the small book; return the folder of its pages."""
    folder = tmp_path_factory.mktemp("html")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(downloads, "build_wheel", fake_wheel)
        downloads.offer(book, build.build_all(book), folder)
    return folder


def fake_wheel(root, folder):
    folder.mkdir(parents=True)
    (folder / "d2lmini.whl").write_bytes(b"wheel")
    return "d2lmini.whl"


@pytest.mark.slow
def test_the_button_delivers_a_notebook_that_stands_alone(offered):
    own = nbformat.read(offered / "downloads" / "01-one.ipynb", as_version=4)
    nbformat.validate(own)
    (figure,) = [cell for cell in own.cells if "attachments" in cell]
    assert "](attachment:a.png)" in figure.source
    stored = base64.b64decode(figure.attachments["a.png"]["image/png"])
    assert Image.open(io.BytesIO(stored)).size == (12, 12)
    assert not any("](img/" in cell.source for cell in own.cells)


def test_the_archive_has_all_that_the_notebook_needs(offered, book):
    with zipfile.ZipFile(offered / "downloads" / "01-one.zip") as archive:
        names = set(archive.namelist())
        own = nbformat.reads(archive.read("01-one.ipynb").decode(), as_version=4)
        assert archive.read("scripts/run.py") == b"print(1)\n"
    files = {"01-one.ipynb", "img/a.svg", "scripts/run.py", "d2lmini.whl"}
    assert names == {*files, *downloads.LICENCES}
    targets = re.findall(r"\]\((img/[^)]*)\)", "\n".join(c.source for c in own.cells))
    assert set(targets) <= names
    assert targets
    assert not (offered / "downloads" / "intro.zip").exists()


def test_the_first_code_cell_installs_what_the_archive_has(offered):
    own = nbformat.read(offered / "downloads" / "01-one.ipynb", as_version=4)
    first = next(cell for cell in own.cells if cell.cell_type == "code")
    assert first.source.split("\n")[-1] == "# %pip install './d2lmini.whl[notebooks]'"
    assert all(line.startswith("# ") for line in first.source.split("\n")), "asked for, not done"
    assert "01-one.zip" in first.source


def test_other_numbers_than_the_books_are_noticed(book):
    right = {"chapters/one": {"figure": {"fig-a": (1, 1)}, "displaymath": {"eq-a": (1, 1)}}}
    right["chapters/two"] = {"figure": {"fig-b": (1,), "fig-c": (2,)}}
    assert list(downloads.other_numbers(book, right)) == []
    wrong = right | {"chapters/two": {"figure": {"fig-b": (1,), "fig-c": (4,)}}}
    assert list(downloads.other_numbers(book, wrong)) == [
        "chapters/two: figures ['1', '4'] have the numbers ['1', '2'] in the notebook"
    ]


def test_the_same_files_make_the_same_archive(tmp_path):
    for name in ("a", "b"):
        downloads.archive(tmp_path / name, {"y": b"2", "x": b"1"})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.process
def test_the_wheel_has_every_module(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.startswith("d2lmini-")}
    paths = [*(ROOT / "d2lmini").rglob("*"), *(ROOT / "simgpu").rglob("*")]
    files = [path for path in paths if path.is_file() and path.suffix not in (".md", ".pyc")]
    wanted = {path.relative_to(ROOT).as_posix() for path in files}
    assert packed == wanted | {"simgpu/README.md"}


@pytest.mark.process
def test_the_installed_package_works_without_the_repository(wheel, tmp_path):
    """Installed without what it needs, which is taken from this environment."""
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--target", target, wheel], check=True)
    program = (
        "import d2lmini, d2lmini.ddp, simgpu.run, d2lmini.checks, sys, torch\n"
        "device = d2lmini.gpus(1, quiet=True)[0]\n"
        "print(d2lmini.__file__, (torch.ones(2, device=device).sum()).item())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target), "D2LMINI_GPUS": "sim"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [str(target / "d2lmini" / "__init__.py"), "2.0"], done.stderr
    assert (target / "bin" / "simgpu").exists()


def names_of(requirements):
    return {re.match(r"[\w.-]+", line)[0].lower() for line in requirements}


@pytest.fixture(scope="module")
def metadata(wheel):
    """Return what the wheel says it needs."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if re.fullmatch(r"[^/]*\.dist-info/METADATA", n)]
        return email.message_from_bytes(archive.read(name))


@pytest.mark.process
def test_extras_and_exact_versions_name_the_same_packages(metadata):
    assert set(metadata.get_all("Provides-Extra")) == {"notebooks", "book", "test"}
    wanted = names_of(metadata.get_all("Requires-Dist"))
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    exact = [line for line in lines if line and not line.startswith("#")]
    assert all("==" in line for line in exact)
    own = {"d2lmini", "tqdm"}  # the latter by pooch[progress]
    assert wanted - own == names_of(exact) - own


@pytest.mark.process
def test_a_cluster_needs_neither_the_books_tools_nor_the_tests(metadata):
    plain = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert names_of(plain) == {"torch", "numpy"}


def test_the_archive_of_all_has_every_notebook_in_its_place(offered):
    with zipfile.ZipFile(offered / "downloads" / downloads.ALL) as archive:
        names = set(archive.namelist())
        one = archive.read("01-one.ipynb").decode()
        two = nbformat.reads(archive.read("reference/two.ipynb").decode(), as_version=4)
    assert {"00-intro.ipynb", "01-one.ipynb", "img/a.svg", "scripts/run.py"} <= names
    assert {"reference/two.ipynb", "reference/img/a.svg", "d2lmini.whl", "LICENSE"} <= names
    assert "# %pip install './d2lmini.whl[notebooks]'" in one
    assert "01-one.zip" not in one, "the wheel is there"
    assert "](../01-one.ipynb)" in two.cells[0].source


def test_a_notebook_in_a_folder_finds_the_wheel_above_it():
    page = build.Built("reference/a.ipynb", "a", new_notebook(cells=[new_code_cell("run()")]))
    first = build.among_all(page, "d2lmini.whl").cells[0]
    assert first.source.endswith("# %pip install './../d2lmini.whl[notebooks]'")


def menu(book, name):
    """Return texts, and what they lead to, of what a page offers."""
    buttons = [{"text": ".md"}]
    context = {
        "header_buttons": [{"label": "other"}, {"label": "download-buttons", "buttons": buttons}],
        "pathto": lambda place, resource: f"../{place}",
    }
    app = SimpleNamespace(srcdir=book.root)
    downloads.add_buttons(app, name, "page.html", context, None)
    return {b["text"]: b.get("url", b.get("javascript")) for b in buttons}


def test_a_chapters_page_says_in_words_what_it_offers(book, offered):
    found = menu(book, "chapters/one")
    assert found == {
        "Notebook": "../downloads/01-one.ipynb",
        "Notebook with package and pictures (Colab, Kaggle)": "../downloads/01-one.zip",
        "Print": "window.print()",
        "Print without code": "d2lPrint()",
    }
    for url in list(found.values())[:2]:
        assert (offered / url.removeprefix("../")).exists()
    assert menu(book, "chapters/two")["Notebook"] == "../downloads/two.ipynb"


def test_the_front_page_offers_the_whole_book(book, offered):
    found = menu(book, "intro")
    assert found == {"All notebooks": "../downloads/notebooks.zip", "Print": "window.print()"}
    assert (offered / "downloads" / "notebooks.zip").exists()
    assert menu(book, "references") == {"Print": "window.print()"}
