"""A reader's notebook as JupyterLab shows it, in a browser, trusted and not."""

import subprocess
import sys

import nbformat
import pytest
from support.lab import lab, variables
from support.paths import ROOT
from support.samples import small_book

from tools.readers import build, place
from tools.readers.book import Book

SHOWN = "document.querySelectorAll('.jp-Notebook .jp-RenderedMarkdown h2').length > 2"
TEXT = "document.querySelector('.jp-Notebook').innerText"
WIDTHS = """
    [...document.querySelectorAll('.jp-OutputArea-output object, .jp-OutputArea-output img')]
    .filter(e => e.getBoundingClientRect().width > 600).map(e => e.tagName)
"""
PICTURES = """
    [...document.querySelectorAll('.jp-RenderedMarkdown img')].map(e => e.naturalWidth)
"""
FOLDED = "[...document.querySelectorAll('.jp-InputPlaceholder')].map(e => e.innerText)"
ASKED = "[...document.querySelectorAll('.Toastify__toast')].map(e => e.innerText)"
EXERCISE = """
    (() => {
        const cells = [...document.querySelectorAll('.jp-Notebook .jp-Cell')];
        const start = cells.findIndex(c => c.innerText.includes('Exercise 1: Add'));
        return cells.slice(start + 1, start + 3).map(c => c.innerText.trim());
    })()
"""


@pytest.fixture(scope="module")
def opened(tab, tmp_path_factory):
    """Open the small book's first chapter as it is and trusted; return what a page is asked."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("notebooks")
    pages = build.build_all(Book(small_book.write(tmp_path_factory.mktemp("book"))))
    names = place.place_all(folder, pages)
    alone = build.with_pictures_inside(build.with_install_cell(pages[1], "a.whl"), pages[1].files)
    nbformat.write(alone, folder / "alone.ipynb")
    script = "from tools.readers import place; import sys, pathlib; "
    script += "place.trust(pathlib.Path(sys.argv[1]), sys.argv[2:])"
    answers = {}
    with lab(folder, home) as address:
        for state in ("as downloaded", "trusted"):
            if state == "trusted":
                call = [sys.executable, "-c", script, folder, *names]
                subprocess.run(call, env=variables(home), check=True)
            tab.open("about:blank")
            tab.open(address("alone.ipynb" if state == "as downloaded" else "01-one.ipynb"))
            tab.wait(SHOWN)
            tab.wait(f"({WIDTHS}).length")
            tab.wait(f"({PICTURES}).every(width => width)")
            questions = {"text": TEXT, "widths": WIDTHS, "pictures": PICTURES}
            questions |= {"folded": FOLDED, "exercise": EXERCISE, "asked": ASKED}
            answers[state] = {name: tab.ask(question) for name, question in questions.items()}
            tab.picture(home / f"{state}.png")
        tab.open("about:blank")  # a server that is asked for kernels does not end at once
        tab.wait("location.href == 'about:blank'")
    print(f"pictures: {home}/*.png")
    return answers


@pytest.fixture(params=["as downloaded", "trusted"])
def shown(request, opened):
    return opened[request.param]


def test_text_has_numbers_and_no_markup(shown):
    assert "A run takes 1.25 s" in shown["text"]
    assert "Curie and Dollár (1911)" in shown["text"]
    assert not any(left in shown["text"] for left in ("{cite", "{numref", "{eq}", ":::", "(sec-"))
    assert shown["text"].count("{glue") == 1, "the one in code"


def test_a_timeline_is_a_picture_and_no_debris(shown, opened):
    trusted = shown is opened["trusted"]
    assert shown["widths"][:1] == (["OBJECT"] if trusted else ["IMG"])
    assert "matrix product" not in shown["text"], "the words of the drawing, without the drawing"


def test_pictures_are_found_beside_or_inside_the_notebook(opened):
    assert opened["trusted"]["pictures"] == [8]
    assert opened["as downloaded"]["pictures"] == [12]


def test_solutions_are_folded_and_an_exercise_begins_with_an_empty_cell(shown):
    assert any(line.startswith("# Solution") for line in shown["folded"])
    assert "return a + b" not in shown["text"]
    own, solution = shown["exercise"]
    assert own in ("", "[ ]:")
    assert "# Solution" in solution


def test_what_was_checked_is_said_though_the_check_is_folded(shown):
    assert "Checked: x is <2> times *y*." in shown["text"]
    assert any("assert math.pi > 3" in line for line in shown["folded"])


def test_no_box_asks_whether_to_fetch_news(shown):
    assert shown["asked"] == []


def test_make_sets_what_keeps_the_box_away():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "lab edit: export JUPYTER_CONFIG_PATH := $(CURDIR)/tools/readers/lab" in makefile
