"""The search and the switches of a page.

The search shows sections, one card for the glossary, and marks words rather than letters. One
switch shows all code of a page, another wraps it on phones, and a page prints without it.
"""

import base64
import io

import pytest
from pypdf import PdfReader

from tools.chromium.visits import new_visitor, served

DONE = "/Results found/.test(document.querySelector('#search-results')?.innerText)"
CARDS = "document.querySelectorAll('ul.search > li')"
SHOWN = f"{CARDS}.length === document.querySelectorAll('ul.search > li > :is(p, ul, span)').length"
FOUND = """[...document.querySelectorAll('ul.search > li')].map(card => ({
  title: card.querySelector('a').textContent,
  link: card.querySelector('a').getAttribute('href'),
  sections: [...card.querySelectorAll('.d2l-hits a')].map(
    a => [a.textContent, a.getAttribute('href')]),
  text: card.innerText,
}))"""
MARKED = "[...document.querySelectorAll('#search-results .highlighted')].map(e => e.textContent)"


@pytest.fixture(scope="module")
def site(built):
    """Serve the built book; return its address."""
    with served(built) as address:
        yield address


def search(site, tab, words):
    """Search for words; return the page."""
    visitor = new_visitor(tab)
    visitor.visit(f"{site}/search.html?q={words.replace(' ', '+')}")
    visitor.wait(DONE)
    visitor.wait(SHOWN)
    assert visitor.said() == []
    return visitor


def test_a_page_is_one_card_with_its_sections(site, tab):
    found = search(site, tab, "bubble").ask(FOUND)
    links = [card["link"] for card in found]
    assert links[:2] == ["glossary.html#term-bubble", "chapters/pipeline-parallelism.html"]
    assert len(set(links)) == len(links)
    sections = found[1]["sections"]
    assert 1 <= len(sections) <= 3
    assert all(link.startswith(links[1] + "#") for _, link in sections)
    assert any("bubble" in words.lower() for words, _ in sections)
    assert "import" not in found[1]["text"], "what is quoted is text"


def test_a_section_inside_another_has_both_headings(site, tab):
    found = search(site, tab, "zero bubble").ask(FOUND)
    sections = [words for card in found for words, _ in card["sections"]]
    assert any("Going deeper \u203a Zero bubble" in words for words in sections)


def test_the_glossary_is_one_card_with_the_definition(site, tab):
    found = search(site, tab, "allreduce").ask(FOUND)
    (own,) = [card for card in found if "glossary" in card["link"]]
    assert own["title"] == "Glossary: allreduce"
    assert len(own["text"]) > 60


def test_names_of_the_package_are_cards_of_their_own(site, tab):
    titles = [card["title"] for card in search(site, tab, "allreduce").ask(FOUND)]
    assert "d2lmini.allreduce" in titles


def test_letters_and_small_words_are_not_marked(site, tab):
    visitor = search(site, tab, "how many gpus do i need")
    visitor.wait(f"{MARKED}.length")
    assert {word.lower() for word in visitor.ask(MARKED)} == {"gpus"}


def test_only_a_page_that_is_opened_from_the_results_has_the_words_marked(site, tab):
    visitor = search(site, tab, "bubble")
    kept = "localStorage.getItem('sphinx_highlight_terms')"
    assert visitor.ask(kept) is None
    visitor.ask("document.querySelector('#search-results').addEventListener('click', "
                "event => event.preventDefault())")  # fmt: skip
    visitor.ask("document.querySelector('ul.search a').click()")
    assert visitor.ask(kept) == "bubble"


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
def page(site, tab):
    """Open a chapter on a server, and keep nothing of it for later; return the page."""
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
    assert "def step_seconds(" in text
    assert "def step_seconds(" not in plain
    assert "assert " not in plain
    assert "one bucket" in plain, "outputs stay"
    page.ask("dispatchEvent(new Event('afterprint'))")
    assert "def " in printed(page)[1]
