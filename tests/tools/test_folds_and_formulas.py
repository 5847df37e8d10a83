"""Helpers of a page in one fold, and the room between the letters of formulas."""

import re

import pytest

from tools.pages import folds, mended
from tools.pages.folds import group, keep_folded, tick
from tools.pages.formulas import mathml


def test_names_of_functions_have_room_and_signs_have_none():
    spaced = "<mi>log</mi><mspace"
    assert spaced in mathml(r"\log t")
    assert "</msub><mspace" in mathml(r"\log_2 n")
    assert "<mn>2</mn><mspace" in mathml(r"2 \log t")
    assert "mspace" not in mathml(r"\min(a, b)")
    assert "<mi>min</mi>" in mathml(r"\min(a, b)"), "an operator would have room on both sides"
    assert mathml(r"(-\log p)").count('<mo form="prefix">') == 1
    assert 'form="prefix"' not in mathml("a - b")


DEF = '<span class="k">def</span><span class="w"> </span><span class="nf">{name}</span>'
HELPER = f"""<div class="cell {{tags}} docutils container">
<details class="admonition hide above-input">
<summary>
<p class="collapsed admonition-title">{{prompt}}</p>
<p class="expanded admonition-title">{{prompt}}</p>
</summary>
<div class="highlight"><pre><span></span><span class="c1"># {{prompt}}</span>
{DEF}<span class="p">():</span>
    {DEF.format(name="inner")}<span class="p">():</span>
</pre></div>
</details>
</div>
"""


def helpers(*names, prompt="Helper: counts", tag="helper"):
    tags = " ".join(f"tag_{name}" for name in sorted(filter(None, [tag, "hide-cell"])))
    return "".join(HELPER.format(name=name, prompt=prompt, tags=tags) for name in names)


CHECK = {"prompt": "Checked: all is well", "tag": "check"}


def test_three_helpers_in_a_row_are_one_fold():
    page = group(f"<p>x</p>{helpers('a', 'b', 'c')}<p>y</p>{helpers('d', 'e')}")
    assert page.count('<details class="cell d2l-helpers unprinted">') == 1
    names = "<code>a</code>, <code>b</code>, <code>c</code>"
    assert f"<summary>3 helpers: {names}</summary>" in page
    assert page.count("</details>") == 6
    assert page.count('title">Counts') == 6, "the fold says that they are helpers"
    assert page.count("# Helper: counts") == 5, "cells stay as they are"
    assert group(page) == page


def test_checks_are_not_folded_with_helpers():
    page = helpers("a", "b") + helpers("c", **CHECK) + helpers("d", "e")
    assert group(page) == page


def test_what_does_not_teach_stays_folded_on_paper():
    for tag in ("imports", "helper", "check", "solution", "picture"):
        kept = keep_folded(helpers("a", prompt="In any language", tag=tag))
        assert '<details class="admonition hide unprinted above-input">' in kept
        assert keep_folded(kept) == kept
    for tag in ("curious", ""):
        assert "unprinted" not in keep_folded(helpers("a", prompt="Imports", tag=tag))


def test_a_check_is_a_line_with_a_tick_that_still_says_what_it_is():
    page = helpers("a", **CHECK) + helpers("b")
    ticked = tick(keep_folded(page))
    assert ticked.count('<details class="admonition hide d2l-check unprinted above-input">') == 1
    words = re.findall(r'title">(.*?)</p>', ticked)
    assert words[:2] == [folds.WORD.format("Checked: ", "All is well")] * 2
    assert words[2:] == ["Helper: counts"] * 2
    assert tick(ticked) == ticked
    code = tick(helpers("a", prompt="Checked: net.step() is <code>x</code>", tag="check"))
    assert folds.WORD.format("Checked: ", "net.step() is") in code


@pytest.mark.parametrize("prompt", ["검사: 둘 다 같다", "检查\uff1a两者: 一样"])
def test_a_check_is_ticked_in_any_language(prompt):
    word, said = re.fullmatch("(검사: |检查\uff1a)(.*)", prompt).groups()
    made = tick(helpers("a", prompt=prompt, tag="check"))
    assert made.count(folds.WORD.format(word, said)) == 2
    assert "d2l-check" not in tick(helpers("a", prompt=prompt))


def test_a_link_that_is_a_formula_has_a_name():
    formula = f'<span class="math notranslate">{mathml("2 F")}</span>'
    link = f'<a class="reference internal" href="#a">{formula}</a>'
    page = mended.mend(f"<p>{link} {link.replace(formula, formula + ' more')}</p>")
    assert page.count("aria-label") == 1
    assert '<a class="reference internal" href="#a" aria-label="2F"><span' in page
    assert mended.mend(page) == page


def test_names_of_a_term_are_words_of_their_own_and_defaults_are_values():
    entry = "<dl><dt>all-gather</dt><dt>allgather</dt><dd>A collective</dd></dl>"
    assert mended.mend(entry).split() == entry.replace("</dt><", "</dt> <").split()
    assert mended.mend("<span>a=&lt;factory&gt;</span>") == "<span>a={}</span>"
