"""Guesses before a run; an extension of Sphinx.

The directive ``guess`` ends a text that asks something. Its body is a list of short options; under
it, on the page, the outputs of the cells that follow stay covered until the reader has chosen one
or has asked to see them (``assets/guess.js``). So does the paragraph after them if it is a verdict:
at most 30 words, no formula and nothing bold. What teaches is never covered. Without JavaScript
and on paper it is a plain list, and nothing is covered; in readers' notebooks the outputs are
cleared and the verdict is folded (`tools.readers.covered`).

What stands behind ``{guess}`` is asked in place of "Your guess?". The options of the directive:

``right``
    The number of the right option, from 1.
``answer``
    What the page says in place of the right option; a glued number belongs here.
``checked``
    A piece of an ``assert`` of the chapter, without which the right option would be wrong.
``cells``
    How many code cells are covered, counting folded ones; by default all up to the next text.

One of ``answer`` with a number and ``checked`` has to be there; ``tests/book/test_guesses.py``
compares them with the right option.
"""

from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from tools import words
from tools.words import say


class Guess(SphinxDirective):
    """A list of options, one of which is right."""

    has_content = True
    optional_arguments, final_argument_whitespace = 1, True
    option_spec: ClassVar = {
        "right": directives.positive_int,
        "answer": directives.unchanged,
        "checked": directives.unchanged,
        "cells": directives.positive_int,
    }

    def run(self):
        """Return a box: what is asked, the options, and the answer if it is no option."""
        box = nodes.container(classes=["d2l-guess"])
        box += nodes.paragraph("", self.arguments[0] if self.arguments else say("Your guess?"))
        self.state.nested_parse(self.content, self.content_offset, box)
        items = list(box.findall(nodes.list_item))
        right = self.options.get("right", 0)
        if not (
            isinstance(box[-1], nodes.bullet_list)
            and 2 <= len(items) <= 4
            and 1 <= right <= len(items)
        ):
            raise self.error("a guess needs two to four options, and the number of the right one")
        items[right - 1]["classes"].append("d2l-right")
        if "cells" in self.options:
            box["classes"].append(f"d2l-cells-{self.options['cells']}")
        if "answer" in self.options:
            said, problems = self.state.inline_text(self.options["answer"], self.lineno)
            box += nodes.paragraph("", "", *said, *problems, classes=["d2l-answer"])
        return [box]


def setup(app):
    """Register with Sphinx."""
    app.add_directive("guess", Guess)
    words.load(app)
    app.add_js_file("guess.js", loading_method="defer")
    app.add_css_file("guess.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
