"""Formulas as MathML, which browsers draw by themselves: no script, and no wait for one."""

import html
import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number

from tools.words import say

KNOWN_AS = {"aligned": "split"}  # by the converter, which draws them alike
SPACES = re.compile(r"\s+")
NAME = r"<mi>(?:log|ln|exp|min|max)</mi>"
WITH_BASE = rf"{NAME}|<msub>{NAME}<m[in]>\w+</m[in]></msub>"
THIN = '<mspace width="0.17em" />'
OPENS = r"<mrow>|>(?:&#x00028;|&#x0003D;|&#x0002C;|=|,)</mo>"
RULES = [  # what the converter writes badly, and what takes its place
    (r"<mo>(min|max)</mo>", r"<mi>\1</mi>"),
    (rf"({WITH_BASE})(?=<m(?!o|row><mo|sub><mo))", rf"\1{THIN}"),
    (rf"(?<=</mi>|</mn>)(?<!&#x02308;</mi>)((?:<msub>)?{NAME})", rf"{THIN}\1"),
    (rf"((?:{OPENS})<mo)(?=>&#x02212;</mo>)", r'\1 form="prefix"'),  # a sign
]


def spaced(made):
    """Return MathML in which names of functions have room and signs have none."""
    for pattern, replacement in RULES:
        made = re.sub(pattern, replacement, made)
    return made


def mathml(tex, display="inline"):
    """Return a formula as MathML, with its source for programs that cannot read it.

    Parameters
    ----------
    tex : str
        The formula, without dollars.
    display : {"inline", "block"}
        Whether it stands in the text or in a line of its own.

    Examples
    --------
    >>> mathml("x_1").partition("<mrow>")[2]
    '<msub><mi>x</mi><mn>1</mn></msub></mrow></math>'
    """
    source = tex
    for name, other in KNOWN_AS.items():
        for end in ("begin", "end"):
            source = source.replace(rf"\{end}{{{name}}}", rf"\{end}{{{other}}}")
    if r"\\" in source and r"\begin" not in source:
        source = rf"\begin{{split}}{source}\end{{split}}"
    made = spaced(convert(source, display=display))
    left = re.search(r"\\[a-zA-Z]+", html.unescape(re.sub("<[^>]+>", "", made)))
    if left or "<mi>&</mi>" in made or 'linebreak="newline"' in made:
        what = left[0] if left else "an alignment"
        raise ExtensionError(f"formula: {what} is not known, in {tex}")
    made = made.replace("<mi>;</mi>", '<mo separator="true">;</mo>')  # with room behind it
    return made.replace(
        "<math ", f'<math alttext="{html.escape(SPACES.sub(" ", tex.strip()))}" ', 1
    )


def visit_inline(self, node):
    """Write a formula in the text."""
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate"))
    self.body.append(mathml(node.astext()) + "</span>")
    raise nodes.SkipNode


def visit_block(self, node):
    """Write a formula in a line of its own, with its number."""
    self.body.append(self.starttag(node, "div", CLASS="math notranslate"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, say("Link to this equation"))
        self.body.append("</span>")
    for part in node.astext().split("\n\n"):
        if part.strip():
            self.body.append(mathml(part, "block"))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer; ``html_math_renderer: mathml`` chooses it."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
