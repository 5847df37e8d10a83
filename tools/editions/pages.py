"""The pages that are translated, and the words of each."""

import re
from functools import cache
from pathlib import Path

import yaml

from tools import words
from tools.editions.blocks import TAG, WORD, comments, has_words, split
from tools.readers.book import page_numbers, read_page

ROOT = Path(__file__).parents[2]
WORDS = "words"  # not a page: what tools, scripts and figures say
ENGLISH_ONLY = {"chapters/how-far-to-trust-the-clock", "references", "translating"}
TEXT = re.compile(r"(?s)(?P<before><text\b[^>]*>)(?P<words>.*?)(?=</text>)")
SAID = re.compile(r'(?P<before><button[^>]*>|data-(?:says|rate)=")(?P<words>[^<"]+)')
FIGURES = {"chapters/img/*.svg": TEXT, "assets/front/runs.html": SAID}  # words in pictures
CLOCKS = ("simulated", "measured")  # what a glued time may say of itself
LOGO = "logo.svg"  # a name: it stays
STRIPS = "strip-"  # drawn anew for each language: their words have numbers between them


def names(root=ROOT):
    """Return the names of the pages that editions have, in the book's order, and of the words."""
    found = [name for name in page_numbers(root) if not name.startswith("api/")]
    return [WORDS, *(name for name in found if name not in ENGLISH_ONLY)]


def blocks_of(name, root=ROOT):
    """Return the English blocks of a page that have words, each once, in its order."""
    if name == WORDS:
        return list(dict.fromkeys(table_words(root)))
    notebook = read_page(root, name).notebook
    return list(dict.fromkeys(block for cell in notebook.cells for block in of_cell(cell)))


def of_cell(cell):
    """Yield the blocks of a cell."""
    if cell.cell_type == "code":
        yield from comments(cell.source)
        if alt := alternative_text(cell):
            yield alt
        return
    for block in split(cell.source):
        if is_code(block):
            yield from comments(block)
        elif has_words(block):
            yield block


def is_code(block):
    """Return whether a block of Markdown is displayed code, of which comments are translated."""
    return block.startswith("```") and "\n" in block


def alternative_text(cell):
    """Return what a screen reader says of a cell's plot."""
    return cell.metadata.get("mystnb", {}).get("image", {}).get("alt")


def table_words(root):
    """Yield what the tools, the scripts, the table of contents and the figures say."""
    yield yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["title"]
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    yield from (part["caption"] for part in toc["parts"])
    yield from words.found()
    yield from CLOCKS
    yield from figure_words(root)


def figures(root):
    """Yield the files of figures that have words, each with the pattern that finds them."""
    for places, pattern in FIGURES.items():
        for path in sorted(root.glob(places)):
            if path.name != LOGO and not path.name.startswith(STRIPS):
                yield path, pattern


@cache
def figure_words(root):
    """Return the words in the book's figures."""
    found = (
        match["words"]
        for path, pattern in figures(root)
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    )
    return tuple(dict.fromkeys(words for words in found if WORD.search(TAG.sub("", words))))
