"""The glossary: in order, used, exact links."""

import re
from functools import cache

import nbformat
import pytest
from support.each import each
from support.paths import ROOT

from tools.pages.inflected import forms
from tools.pages.terms import COMMON
from tools.readers.book import slug

PAGE = (ROOT / "glossary.md").read_text(encoding="utf-8")
BODY = re.search(r"```\{glossary\}\n(.*?)\n```", PAGE, re.DOTALL)[1]
ENTRIES = [block.split("\n") for block in BODY.split("\n\n")]
NAMES = [[line for line in entry if not line.startswith(" ")] for entry in ENTRIES]
DEFINITIONS = [" ".join(line.strip() for line in e if line.startswith(" ")) for e in ENTRIES]
LINK = re.compile(r"\]\(([\w/.-]*)(?:#([\w-]+))?\)")
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))


@cache
def text_of(path):
    """Return the text of a page's Markdown and code, without the words of links' targets."""
    if path.suffix == ".ipynb":
        text = "\n\n".join(cell.source for cell in nbformat.read(path, 4).cells)
    else:
        text = path.read_text(encoding="utf-8")
    return re.sub(r"\]\([^)]*\)", "]", text)


@cache
def all_text():
    pages = [*CHAPTERS, *(ROOT / "chapters").glob("*.md")]
    return "\n".join(map(text_of, pages))


@cache
def places(path):
    """Return what links can name on a page: headings and labels."""
    text = "\n\n".join(
        cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown"
    )
    headings = re.findall(r"^#{1,3} (.+)$", text, re.MULTILINE)
    return {slug(heading.replace("`", "")) for heading in headings}


def is_used(name):
    ending = r"\w{0,3}" if len(name) > 5 else ""  # prefetch, prefetches
    words = (rf"(?<!\w){re.escape(form)}{ending}(?!\w)" for form in forms(name))
    return any(re.search(word, all_text()) for word in words)


def each_entry():
    return each(zip(NAMES, DEFINITIONS, strict=True), lambda entry: entry[0][0])


def test_terms_are_in_alphabetical_order():
    first = [names[0].lower() for names in NAMES]
    assert first == sorted(first)
    assert len(first) > 80


def test_a_name_stands_in_one_entry():
    every = [name for names in NAMES for name in names]
    assert len(set(every)) == len(every)
    assert set(every) >= COMMON, "words that are no terms need not be left out"


@pytest.mark.slow
@each_entry()
def test_a_term_is_used_or_said_to_be_missing(entry):
    names, said = entry
    used = any(map(is_used, names))
    missing = re.search(r"not (called this|covered|used) in (this|the) book", said)
    # A term that the book leaves out may be named in passing, where it says so.
    assert used or missing


@each_entry()
def test_a_definition_is_one_sentence_and_a_link_that_leads_somewhere(entry):
    names, said = entry
    definition, _, rest = said.partition(". See ")
    assert rest.count("](") == 1
    assert not re.search(r"[.!?] [A-Z]", definition), "one sentence"
    assert len(definition.split()) <= 40
    assert not any(definition.lower().startswith(f"{name.lower()} is") for name in names)
    path, label = LINK.search(rest).groups()
    if path and label:
        assert label in places(ROOT / path), f"{names[0]}: {path} has no section {label}"
    elif path:
        assert (ROOT / path).exists()
    else:
        assert f"({label})=" in "".join(map(text_of, CHAPTERS))


def test_a_link_to_a_missing_section_would_be_found():
    assert "no-such-section" not in places(CHAPTERS[0])
    assert "the-host-runs-ahead" in places(ROOT / "chapters" / "devices.ipynb")


@pytest.mark.parametrize(
    "query",
    ["OOM", "out of memory", "all-reduce", "allreduce", "FSDP", "pinned memory", "HFU", "RDMA"],
)
def test_what_people_search_for_is_there(query):
    assert query in [name for names in NAMES for name in names]


def test_most_entries_lead_to_a_section_and_not_to_a_page():
    assert sum("#" in said for said in DEFINITIONS) > 0.9 * len(DEFINITIONS)
