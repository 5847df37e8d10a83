"""One switch shows all code of a page, another wraps it on phones, and a page prints without it."""

import base64
import io

import pytest
from pypdf import PdfReader

from tools.chromium.visits import new_visitor, served

PAGE = "chapters/overlap-and-scaling.html"
BOX = "document.querySelector('.d2l-{name} input')"
FOLDS = "[...document.querySelectorAll('article div.cell details.hide')]"
IS_SOLUTION = "/^\\s*Solution/.test(fold.querySelector('summary').textContent)"
OPEN = f"{FOLDS}.filter(fold => fold.open).length"
OPEN_SOLUTIONS = f"{FOLDS}.filter(fold => fold.open && {IS_SOLUTION}).length"
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
HIDDEN_LINES = """[...document.querySelectorAll('article .cell_input pre')].filter(
    e => e.offsetWidth && e.scrollWidth > e.clientWidth + 4).length"""


@pytest.fixture
def page(built, tab):
    """Open a chapter on a server, with nothing kept from before; return the page."""
    with served(built) as site:
        visitor = new_visitor(tab)
        visitor.visit(f"{site}/{PAGE}")
        yield visitor
        visitor.ask("localStorage.clear()")


def test_all_code_but_solutions_is_shown_and_this_is_remembered(page):
    assert page.ask(OPEN) == 0
    page.ask(f"{BOX.format(name='show-code')}.click()")
    every = page.ask(f"{FOLDS}.filter(fold => !({IS_SOLUTION})).length")
    assert page.ask(OPEN) == every > 10
    assert page.ask(OPEN_SOLUTIONS) == 0
    page.visit(page.ask("location.href"))
    assert page.ask(OPEN) == every
    page.ask(f"{BOX.format(name='show-code')}.click()")
    assert page.ask(OPEN) == 0
    page.visit(page.ask("location.href"))
    assert page.ask(OPEN) == 0


def test_on_a_phone_long_lines_can_be_wrapped(page):
    assert page.ask(f"{BOX.format(name='wrap-code')}.offsetWidth") == 0, "there is room"
    page.call("Emulation.setDeviceMetricsOverride", **PHONE)
    assert page.ask(HIDDEN_LINES) > 5
    page.ask(f"{BOX.format(name='wrap-code')}.click()")
    assert page.ask(HIDDEN_LINES) == 0
    assert page.ask("document.documentElement.scrollWidth") <= PHONE["width"]
    page.call("Emulation.clearDeviceMetricsOverride")


def printed(page):
    """Return the text of the page on paper."""
    data = page.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"]
    pages = PdfReader(io.BytesIO(base64.b64decode(data))).pages
    return len(pages), "\n".join(one.extract_text() for one in pages)


def test_a_page_prints_without_its_code(page):
    pages, text = printed(page)
    assert "import" not in text, "imports stay folded"
    assert "def " in text
    page.ask("window.print = () => {}; d2lPrint()")
    fewer, plain = printed(page)
    assert fewer < pages
    assert "def " not in plain
    assert "assert " not in plain
    assert "one bucket" in plain, "outputs stay"
    page.ask("dispatchEvent(new Event('afterprint'))")
    assert "def " in printed(page)[1]
