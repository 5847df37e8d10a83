"""What the rules find on a whole page of an edition."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from tools.editions import pages, rules, store
from tools.editions.blocks import digest

ROOT = Path(__file__).parents[2]
read_terms = cache(rules.read_terms)


def of_page(language, name, root=ROOT):
    """Yield what is wrong with the form of a page's translations, in the page's order.

    A block that has no translation, or one of an older text, is none of it.

    Yields
    ------
    tools.editions.rules.Problem
        With the mark of the block in front of its text.
    """
    table = store.read(language, name, root)
    known = read_terms(language)
    pairs = [(b, table[digest(b)]) for b in pages.blocks_of(name, root) if digest(b) in table]
    for english, translated in pairs:
        for problem in rules.problems(language, english, translated, known):
            yield replace(problem, text=f"{digest(english)} {problem.text}")
    if name != pages.WORDS:
        for text in rules.first_uses(language, pairs, known):
            yield rules.Problem("warning", text)
