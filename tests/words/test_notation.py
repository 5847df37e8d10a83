"""Each letter has one meaning in all chapters: the table of letters names the pages that use it."""

import re
from functools import cache

import nbformat
from support.each import each
from support.paths import ROOT

from tools.readers.book import page_numbers

NUMBERS = {name.removeprefix("chapters/"): number for name, number in page_numbers(ROOT).items()}
CHAPTERS = {str(number): name for name, number in NUMBERS.items() if number}
CHAPTERS |= {"R": "rules-of-thumb", "W": "wires"}
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$\n]+)\$", re.DOTALL)
TIME = re.compile(r"\be\^|(?<!\\)\bt(?:\([^)]*\)|_(?:\w|\\text\{[^}]*\}|\{[^}]*\}))")
WORDS = re.compile(r"\\(?:text|mathrm)\{[^}]*\}|\\(?:begin|end)\{\w+\}")
SYMBOL = re.compile(r"\\[A-Za-z]+|[A-Za-z](?:_(?:\w|\{[^}]*\}))?")
GREEK = {"\\alpha", "\\eta", "\\lambda", "\\beta", "\\gamma", "\\ell", "\\delta", "\\pi", "\\Pi"}
GREEK |= {"\\rho", "\\tau", "\\sigma", "\\varphi", "\\epsilon"}
INDICES = {"i", "j"}
MATRICES = {"W", "X", "Q", "K", "V", "O", "Z"}
LOCAL = {  # letters that one formula or paragraph explains
    "auto-parallelism": {"y"},
    "multiple-gpus": {"\\varphi", "I", "y"},
    "tensor-parallelism": {"y", "z", "\\epsilon", "p"},
    "pipeline-parallelism": {"y"},
    "long-sequences": {"o", "v", "z", "\\pi", "\\Pi", "\\delta"},
    "experts": {"p", "q"},
    "capstone": {"\\gamma"},
    "rules-of-thumb": {"\\beta"},
}


@cache
def letters_of(page):
    """Return the letters of a page's formulas: without times, words and indices."""
    notebook = nbformat.read(ROOT / "chapters" / f"{page}.ipynb", 4)
    found = set()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"`[^`\n]*`", "", cell.source)
            for formula in (shown or said for shown, said in FORMULA.findall(text)):
                symbols = SYMBOL.findall(WORDS.sub(" ", TIME.sub(" ", formula)))
                found |= {s for s in symbols if not s.startswith("\\") or s in GREEK}
    return found


def table():
    """Return the letters that the table has, and of each the pages that it names."""
    page = nbformat.read(ROOT / "chapters" / "notation.ipynb", 4)
    text = "\n".join(cell.source for cell in page.cells)
    rows = re.findall(r"^\| (\$[^|]*?) \| [^|]* \| ([^|]*) \|$", text, re.MULTILINE)
    return [(re.findall(r"\$(.*?)\$", letters), where) for letters, where in rows]


@each(table(), lambda row: ", ".join(row[0]))
def test_a_row_names_the_pages_whose_formulas_have_its_letters(row):
    letters, where = row
    using = {label for label, page in CHAPTERS.items() if letters_of(page) & set(letters)}
    named = dict(re.findall(r"\[(\w+)\]\(([\w-]+)\.ipynb\)", where))
    assert named == {label: CHAPTERS[label] for label in using}


@each(sorted(CHAPTERS.values()), str)
def test_a_page_has_no_other_letters(page):
    known = {letter for letters, _ in table() for letter in letters} | INDICES | MATRICES
    others = {s for s in letters_of(page) if s not in known}
    own = LOCAL.get(page, set())
    assert {s for s in others if s.partition("_")[0] not in own | known} == set()


def test_letters_are_told_from_words_times_and_indices():
    found = letters_of("collectives")
    assert {"k", "S", "B", "\\alpha", "g"} <= found
    assert "t" not in found  # t(S) is a time
    assert "n" not in found  # ranks are k
