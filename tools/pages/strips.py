"""The directive ``strip``; an extension of Sphinx.

Its argument is a kind of `tools.figures.strips.kinds`, its body the picture that stands in the
page, on paper and in notebooks. On a page with JavaScript, ``assets/strip.js`` puts a player in the
picture's place. Options: ``chosen``, what is chosen at first (one value for each choice, separated
by semicolons), and ``step``, at which it begins (-1: the last).
"""

import json
from typing import ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

FILES = (
    '<link rel="stylesheet" href="../_static/play.css">'
    '<link rel="stylesheet" href="../_static/strip.css">'
    '<script defer src="../_static/strip.js"></script>'
)


def data(kind, chosen=None, step=0):
    """Return what the script needs of a strip, as text that may stand in a page."""
    from tools.figures.strips.film import (
        COLOURS,
        FOREVER,
    )  # here: it loads PyTorch, which few pages need
    from tools.figures.strips.kinds import KINDS, films
    from tools.figures.strips.labels import label

    title, choices, _ = KINDS[kind]
    chosen = chosen or [values[0] for values in choices.values()]
    if len(chosen) != len(choices) or any(
        value not in values for value, values in zip(chosen, choices.values(), strict=True)
    ):
        raise ValueError(f"strip {kind}: {chosen} is no choice of {choices}")
    made = {
        ";".join(map(label, key)): vars(film)
        | {"marks": [mark[:-1] if mark[-1] == FOREVER else mark for mark in film.marks]}
        for key, film in films(kind).items()
    }
    choices = {name: [label(value) for value in values] for name, values in choices.items()}
    page = {"title": title, "choices": choices, "chosen": list(map(label, chosen)), "step": step}
    text = json.dumps(page | {"colours": COLOURS, "films": made}, separators=(",", ":"))
    return text.replace("<", "\\u003c")


class Strip(SphinxDirective):
    """A picture that a script replaces by all steps."""

    has_content = True
    required_arguments = 1
    option_spec: ClassVar = {"chosen": str, "step": int}

    def run(self):
        """Return the picture, with the data of all steps behind it."""
        chosen = [part.strip() for part in self.options.get("chosen", "").split(";") if part]
        try:
            told = data(self.arguments[0], chosen, self.options.get("step", 0))
        except (KeyError, ValueError) as error:
            raise self.error(f"no such strip: {error}") from error
        box = nodes.container(classes=["d2l-strip"])
        self.state.nested_parse(self.content, self.content_offset, box)
        script = f'<script type="application/json">{told}</script>'
        if self.env.temp_data.get("strips") != self.env.docname:
            self.env.temp_data["strips"] = self.env.docname
            script += FILES
        box += nodes.raw("", script, format="html")
        return [box]


def setup(app):
    """Register with Sphinx."""
    app.add_directive("strip", Strip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
