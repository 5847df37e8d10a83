"""What the rules find on a whole page of an edition."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from tools.editions import pages, rules, store
from tools.editions.blocks import digest

ROOT = Path(__file__).parents[2]
GLOSSARY = "glossary"
read_terms = cache(rules.read_terms)


def of_page(language, name, root=ROOT):
    """Yield what is wrong with the form of a page's translations, in the page's order.

    Blocks without a translation, or with one of an older text, are left out.

    Yields
    ------
    tools.editions.rules.Problem
        With the mark of the block in front of its text.
    """
    table = store.read(language, name, root)
    known = read_terms(language)
    pairs = [(b, table[digest(b)]) for b in pages.blocks_of(name, root) if digest(b) in table]
    for english, translated in pairs:
        for problem in of_block(language, name, english, translated, known):
            yield replace(problem, text=f"{digest(english)} {problem.text}")
    if name not in (pages.WORDS, GLOSSARY):
        for text in rules.first_uses(language, pairs, known):
            yield rules.Problem("warning", text)


def of_block(language, name, english, translated, known):
    """Yield what is wrong with one block; of an entry of the glossary also with its names."""
    names, definition = entry(english)
    if name == GLOSSARY and definition:
        new_names, translated = entry(translated)
        if gone := [name for name in names if name not in new_names]:
            yield rules.Problem("error", f"the English names are gone: {', '.join(gone)}")
        english = definition
    found = rules.problems(language, english, translated, known)
    # Words of tools and figures are pieces of sentences and of code.
    yield from found if name != pages.WORDS else (p for p in found if p.kind == "error")


def entry(block):
    """Return the names of an entry of the glossary, and its definition."""
    lines = block.split("\n")
    names = [line for line in lines if not line.startswith(" ")]
    return names, "\n".join(line.strip() for line in lines[len(names) :])


def of_headings(language, root=ROOT):
    """Yield the headings that two English ones have become: a link would not know which is meant.

    Yields
    ------
    tools.editions.rules.Problem
    """
    english = {}
    for name in pages.names(root):
        table = store.read(language, name, root)
        for block in pages.blocks_of(name, root):
            if block.startswith("#") and (new := table.get(digest(block))):
                english.setdefault(new.lstrip("# "), set()).add(block.lstrip("# "))
    for new, several in english.items():
        if len(several) > 1:
            text = f"heading: {new} is what several are called: {', '.join(sorted(several))}"
            yield rules.Problem("error", text)
