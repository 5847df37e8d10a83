"""Guesses before a run: true, readable everywhere, and covering nothing for good."""

import re
import subprocess
import sys
from pathlib import Path

import axe_core_python
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from support.paths import ROOT
from support.samples import small_book
from test_page_rules import CORE, each_page

from tools import notebooks
from tools.chromium.visits import new_visitor
from tools.readers import markup, text
from tools.readers.book import Book

NUMBER = re.compile(r"\d+(?:\.\d+)?")
GLUED = re.compile(r"\{glue:text\}`(\w+)`")


def guesses(path):
    """Return the guesses of a chapter: the number of the cell, the directive, its options."""
    cells = nbformat.read(path, as_version=4).cells
    texts = [(i, cell.source) for i, cell in enumerate(cells) if cell.cell_type == "markdown"]
    found = [(i, markup.directive(token)) for i, s in texts for token in markup.parse(s)[0]]
    return [
        (i, guess, re.findall(r"^- (.+)$", guess.body, re.MULTILINE))
        for i, guess in found
        if guess and guess.name == "guess"
    ]


def nearest(options, number):
    """Return which option, counted from 1, has the number nearest to one; a tie is no answer."""
    far = sorted((abs(float(NUMBER.search(o)[0]) - number), n) for n, o in enumerate(options, 1))
    return far[0][1] if far[0][0] < far[1][0] else None


@each_page(CORE)
def test_a_chapter_lets_its_reader_guess(path):
    cells = nbformat.read(path, as_version=4).cells
    assert len(guesses(path)) >= 2
    for i, guess, options in guesses(path):
        assert cells[i].source.rstrip().endswith(f"{guess.body}\n:::"), "it ends a text"
        assert cells[i + 1].cell_type == "code", "before what it covers"
        assert 2 <= len(set(options)) == len(options) <= 4
        assert all(len(option.split()) <= 10 for option in options)


@each_page(CORE)
def test_the_right_option_is_the_one_that_the_chapter_finds(path):
    notebook = nbformat.read(path, as_version=4)
    numbers = text.glued(notebook)
    checks = [c.source for c in notebook.cells if "check" in notebooks.tags(c)]
    for _, guess, options in guesses(path):
        right = int(guess.options["right"])
        if "answer" in guess.options:
            name = GLUED.search(guess.options["answer"])[1]
            found = float(NUMBER.search(numbers[name])[0])
            assert nearest(options, found) == right, f"{options}: {name} is {found}"
        else:
            assert any(guess.options["checked"] in check for check in checks), guess.options


def test_a_wrong_option_would_be_found():
    assert nearest(["2 times", "5 times", "10 times"], 10.5) == 3
    assert nearest(["2 times", "5 times", "10 times"], 7.4) == 2
    assert nearest(["10", "20"], 15) is None


GUESS = ":::{guess} A sum of\n:right: 2\n:answer: {glue:text}`seconds` s\n\n- 1000 s\n- $1$ s\n:::"


def test_a_readers_notebook_has_a_plain_list(tmp_path):
    book = Book(small_book.write(tmp_path))
    page = text.PageText(book, book.pages["chapters/one"], None)
    assert page.convert(f"So?\n\n{GUESS}") == "So?\n\n*A sum of*\n\n- 1000 s\n- $1$ s"
    assert page.convert(":::{guess}\n:right: 1\n\n- a\n- b\n:::") == "*Your guess?*\n\n- a\n- b"


CONF = f"""\
import sys
sys.path.insert(0, {str(ROOT)!r})
extensions = ["myst_nb", "tools.pages.guesses", "tools.pages.formulas"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
nb_execution_mode = "off"
html_theme, html_math_renderer, html_static_path = "basic", "mathml", [{str(ROOT / "assets")!r}]
"""


def page_of(*cells):
    """Return a notebook that begins with a heading."""
    language = {"name": "python", "pygments_lexer": "python"}
    return new_notebook(
        cells=[new_markdown_cell("# Page"), *cells], metadata={"language_info": language}
    )


def printed(words, source="run()", tags=()):
    return small_book.code(source, new_output("stream", name="stdout", text=words), tags=tags)


def build(folder, notebook):
    """Build a page; return what Sphinx said and the page's path."""
    (folder / "conf.py").write_text(CONF, encoding="utf-8")
    nbformat.write(notebook, folder / "index.ipynb")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(folder), str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr, folder / "out" / "index.html"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Build a page with two guesses; return its path."""
    check = printed("a check\n", "# Checked: 1.25 s\nassert x", ["check", "hide-cell"])
    prompts = ("code_prompt_show", "code_prompt_hide")
    check.metadata.mystnb = dict.fromkeys(prompts, "Checked: 1.25 s")
    second = ":::{guess}\n:right: 1\n:checked: x\n:cells: 2\n\n- yes\n- no\n:::"
    number = small_book.glued("seconds", "1.25")
    number.metadata.scrapbook.mime_prefix = text.SCRAP
    notebook = page_of(
        small_book.code("glue()", number, tags=["remove-cell"]),
        new_markdown_cell(f"How long?\n\n{GUESS}"),
        printed("first output\n"),
        check,
        new_markdown_cell("It is 1.25 s.\n\nOther text."),
        printed("free output\n"),
        new_markdown_cell(f"Again?\n\n{second}"),
        new_code_cell("helper()"),
        new_markdown_cell("Text in between."),
        printed("second output\n"),
        printed("third output\n"),
        new_markdown_cell("Third?\n\n:::{guess}\n:right: 1\n:checked: x\n\n- yes\n- no\n:::"),
        printed("fourth output\n"),
        new_markdown_cell("**A rule.** It is taught.\n\n(anchor)=\nAn end."),
        new_markdown_cell("Long?\n\n:::{guess}\n:right: 2\n:checked: x\n\n- yes\n- no\n:::"),
        printed("fifth output\n"),
        new_markdown_cell("A " + "long " * 30 + "paragraph explains."),
    )
    said, path = build(tmp_path_factory.mktemp("guesses"), notebook)
    assert said == ""
    return path


@pytest.mark.process
def test_a_guess_without_a_right_option_is_an_error(tmp_path):
    wrong = (":right: 3\n\n- a\n- b", "\n- a\n- b", ":right: 1\n\n- a", ":right: 1\n\nwords")
    cells = [new_markdown_cell(f":::{{guess}}\n{body}\n:::") for body in wrong]
    said, _ = build(tmp_path, page_of(*cells))
    assert said.count("two to four options") == len(wrong)


AXE = Path(axe_core_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
WRONG = """axe.run('body', {resultTypes: ['violations']}).then(found => found.violations
    .filter(v => ['critical', 'serious'].includes(v.impact)).map(v => v.id))"""
SEEN = """(() => {
    const boxes = [...document.querySelectorAll('.cell_output, .cell.tag_hide-cell, section > p')];
    const shown = e => e.checkVisibility({visibilityProperty: true}) && e.clientHeight > 5;
    return boxes.filter(shown).map(e => e.textContent.trim().split('\\n')[0]);
})()"""
ALWAYS = ["How long?", "Other text.", "free output", "Again?", "Text in between.", "third output"]
ALWAYS += [
    "Third?",
    "A rule. It is taught.",
    "An end.",
    "Long?",
    "A " + "long " * 30 + "paragraph explains.",
]
LAST = ["fourth output", "fifth output"]
FIRST = ["first output", "Checked: 1.25 s", "It is 1.25 s."]
PRESS = "[...document.querySelectorAll('.d2l-guess')][%d].querySelectorAll('button')[%d].click()"
ALL = (
    "[...document.querySelectorAll('.d2l-more button')].find(b => /lways|again/.test(b.innerText))"
)
SAID = "[...document.querySelectorAll('[role=status]')].map(e => e.textContent)"


@pytest.fixture
def visitor(tab, page):
    """Open the page as if for the first time."""
    visitor = new_visitor(tab)
    visitor.visit(page.as_uri())
    visitor.ask("localStorage.clear()")
    visitor.visit(page.as_uri())
    yield visitor
    assert visitor.said() == []


def seen(visitor):
    """Return what the page shows, each text once."""
    found = visitor.ask(SEEN)
    assert len(set(found)) == len(found)
    return set(found)


def test_outputs_are_covered_until_the_reader_has_chosen(visitor, page):
    assert seen(visitor) == {*ALWAYS}
    visitor.ask(PRESS % (0, 0))
    assert visitor.ask(SAID)[0].startswith("You guessed 1000 s; the answer is 1.25 s.")
    assert seen(visitor) == {*ALWAYS, *FIRST}
    visitor.visit(page.as_uri())
    assert seen(visitor) == {*ALWAYS, *FIRST}, "remembered"
    assert visitor.ask("document.querySelector('[aria-pressed=true]').textContent") == "1000 s"
    visitor.ask(PRESS % (1, 0))
    assert visitor.ask(SAID)[1] == "You guessed yes, which is right."
    assert "second output" in seen(visitor)


def test_one_answer_is_shown_without_a_guess_and_not_remembered(visitor, page):
    visitor.ask("document.querySelectorAll('.d2l-cover')[1].click()")
    assert seen(visitor) == {*ALWAYS, "second output"}
    assert visitor.ask(SAID)[:2] == ["", "The answer: yes."]
    visitor.visit(page.as_uri())
    assert seen(visitor) == {*ALWAYS}


def test_all_answers_are_shown_and_covered_again(visitor, page):
    visitor.ask(f"{ALL}.click()")
    visitor.visit(page.as_uri())
    assert seen(visitor) == {*ALWAYS, *FIRST, "second output", *LAST}
    visitor.ask(f"{ALL}.click()")
    assert seen(visitor) == {*ALWAYS}


def test_a_guess_is_made_by_keyboard(visitor):
    visitor.call("Page.bringToFront")
    visitor.ask("document.querySelector('.d2l-option').focus()")
    for key, code, typed in (("Tab", 9, {}), ("Enter", 13, {"text": "\r"})):
        keys = {"key": key, "windowsVirtualKeyCode": code}
        visitor.call("Input.dispatchKeyEvent", type="keyDown", **keys, **typed)
        visitor.call("Input.dispatchKeyEvent", type="keyUp", **keys)
    assert "first output" in seen(visitor)
    assert visitor.ask("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert "the nearest" in visitor.ask(SAID)[0]


def test_nothing_is_covered_on_paper(visitor):
    visitor.call("Emulation.setEmulatedMedia", media="print")
    assert seen(visitor) == {*ALWAYS, *FIRST, "second output", *LAST}
    buttons = "[...document.querySelectorAll('.d2l-cover, .d2l-more')]"
    assert not visitor.ask(f"{buttons}.some(e => e.checkVisibility())")
    visitor.call("Emulation.setEmulatedMedia", media="")


def test_nothing_is_covered_without_javascript(tab, page):
    visitor = new_visitor(tab)
    visitor.call("Emulation.setScriptExecutionDisabled", value=True)
    visitor.open(page.as_uri())  # it never says that it has settled
    visitor.wait("document.readyState === 'complete' && !!document.querySelector('.d2l-guess')", 20)
    assert seen(visitor) == {*ALWAYS, *FIRST, "second output", *LAST}
    assert visitor.ask("document.querySelectorAll('.d2l-guess button').length") == 0
    html = page.read_text(encoding="utf-8")
    assert '<li class="d2l-right"><p><span class="math' in html
    assert re.search(r'<p class="d2l-answer">.*1\.25.* s</p>', html)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_guess_is_for_everybody(visitor, is_open):
    if is_open:
        visitor.ask(PRESS % (0, 1))
    visitor.ask(f"{AXE}; 0")
    assert visitor.ask(WRONG, awaitPromise=True) == []
    named = "document.getElementById(document.querySelector('.d2l-guess').getAttribute"
    assert visitor.ask(f"{named}('aria-labelledby')).textContent") == "A sum of"


def test_a_link_to_something_covered_shows_it(visitor, page):
    visitor.ask("document.querySelectorAll('.cell_output')[0].id = 'target'")
    visitor.ask("location.hash = '#target'; 0")
    visitor.wait("!document.querySelector('.d2l-covered#target')", 5)
    assert seen(visitor) == {*ALWAYS, *FIRST}
