"""What the extension makes of formulas, icons and the theme's pages."""

import xml.etree.ElementTree as ET

import pytest
from docutils import nodes
from docutils.utils import new_document
from sphinx.errors import ExtensionError

from tools.pages import described, icons, mended, plots, tables
from tools.pages.formulas import mathml

MATHML = "{http://www.w3.org/1998/Math/MathML}"


def test_aligned_lines_are_rows_of_a_table():
    tex = r"\begin{aligned} a \begin{pmatrix} 1 & 2 \end{pmatrix} &= b, \\ c &= d \end{aligned}"
    math = ET.fromstring(mathml(tex, "block"))
    outer = next(math.iter(f"{MATHML}mtable"))
    assert len(outer.findall(f"{MATHML}mtr")) == 2
    assert "aligned" in math.get("alttext")


def test_two_lines_without_an_environment_are_two_lines():
    math = ET.fromstring(mathml(r"a = b \\ c = d", "block"))
    assert len(list(math.iter(f"{MATHML}mtr"))) == 2


@pytest.mark.parametrize("tex", [r"\nosuchcommand{x}", r"\begin{gathered} a &= b \end{gathered}"])
def test_what_cannot_be_drawn_stops_the_build(tex):
    with pytest.raises(ExtensionError, match="not known, in"):
        mathml(tex)


def test_a_timeline_says_what_its_cell_says_of_it():
    page, says = new_document("page"), {"mystnb": {"image": {"alt": "Lanes take turns."}}}
    drawn = '<div class="d2l-tl"><svg role="img" aria-label="Timeline of 4 spans"></svg></div>'
    for metadata, html in ((says, drawn), (says, "<table></table>"), ({}, drawn)):
        raw = nodes.raw(html, html, format="html", classes=["output"])
        page += nodes.container("", nodes.container("", raw), cell_metadata=metadata)
    described.describe(None, page)
    first, *others = (raw.astext() for raw in page.findall(nodes.raw))
    assert 'aria-label="Lanes take turns. Timeline of 4 spans"' in first
    assert others == ["<table></table>", drawn]
    assert [raw["classes"] for raw in page.findall(nodes.raw)] == 3 * [["output"]]


def test_icons_are_found_and_drawn():
    page = '<i class="fas fa-download"></i><i class="theme-switch fa-solid fa-moon fa-lg"></i>'
    assert icons.names(page) == {"download", "moon"}
    sheet = icons.sheet({"list", "file-archive"})
    assert sheet.count("data:image/svg+xml") == 2
    with pytest.raises(ValueError, match="no icon is called nosuchicon"):
        icons.sheet({"nosuchicon"})


def test_the_theme_is_mended():
    page = '<script defer src="_static/scripts/fontawesome.js?digest=1"></script>\n'
    page += '<script src="_static/searchtools.js"></script>'
    page += '<summary aria-label="숨겨진 내용 전환">x</summary>'
    assert mended.mend(page) == "<summary>x</summary>"
    assert "searchtools" in mended.mend(page + '<div id="search-results"></div>')


def test_what_the_theme_leaves_without_a_name_gets_one():
    page = '<a class="reference internal" href="x.html">A page</a><details><summary>'
    page += '<span class="toctree-toggle"></span></summary></details>'
    assert '<summary aria-label="Pages below: A page">' in mended.mend(page)
    page = '<div class="sidebar-primary-item">\n<a class="navbar-brand logo" href="x"></a></div>'
    assert 'role="navigation" aria-label="Front page"' in mended.mend(page)
    row = '<tr><th class="head"><p></p></th><th class="head"><p>GPUs</p></th></tr>'
    assert mended.mend(row).count("<th") == 1


def test_a_semicolon_has_room_behind_it():
    (mark,) = (m for m in ET.fromstring(mathml("f(w; x)")).iter() if m.text == ";")
    assert mark.tag == f"{MATHML}mo"


def test_names_in_the_prompt_of_a_folded_cell_are_code():
    made = mended.mend('<p class="collapsed admonition-title">Checked: `to` copies, `x` not</p>')
    assert made.count("<code>") == made.count("</code>") == 2
    assert "`" not in made


@pytest.mark.parametrize(
    ("name", "whole"), [("--shapes-only", True), ("torchrun", False), ("a-" * 20, False)]
)
def test_options_stay_whole(name, whole):
    assert ('class="pre whole"' in mended.mend(f'<span class="pre">{name}</span>')) == whole


def table(heads, *rows):
    head = "\n".join(f'<th class="head"><p>{name}</p></th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td><p>{cell}</p></td>" for cell in row) + "</tr>" for row in rows
    )
    head = f'<thead>\n<tr class="row-odd">{head}\n</tr>\n</thead>'
    return f'<table class="table">\n{head}\n<tbody>\n{body}\n</tbody>\n</table>'


def test_no_line_begins_with_the_comma_behind_a_formula():
    formula = f'<span class="math notranslate">{mathml("n > 1")}</span>'
    made = mended.mend(f"With {formula}, and ({formula}) or {formula} or {formula}.")
    assert made.count('<span class="whole">') == 3
    assert (
        f'<span class="whole">{formula},</span> and <span class="whole">({formula})</span>' in made
    )


LONG = "a cell with quite a few words"


def test_rows_with_sentences_can_be_stacked():
    made = tables.mend(table(["old", "new", 'a "b"'], [LONG, LONG, LONG], [LONG, "", LONG]))
    assert made.startswith('<table class="table stacked">')
    assert made.count('data-label="new"') == 1, "an empty cell needs no name"
    assert made.count('data-label="a &quot;b&quot;"') == 2
    assert 'data-label="old"' not in made, "the first cell is the title of the row"


@pytest.mark.parametrize(
    "plain",
    [
        table(["k", "s", "times"], ["1", "0.2", "1.0"], ["2", "0.1", "2.0"]),
        table(["name", "what it is"], [LONG, LONG]),
        f'<table class="table"><tr><td>{LONG}</td><td>{LONG}</td><td>{LONG}</td></tr></table>',
    ],
    ids=["numbers", "two columns", "no head"],
)
def test_other_tables_stay_as_they_are(plain):
    assert tables.mend(plain) == plain


def test_long_names_in_tables_break_where_people_would_break_them():
    code = '<code><span class="pre">gluon.utils.split_and_load(X)</span></code>'
    made = tables.mend(table(["a", "b"], [code, '<span class="pre">x.to(d)</span>']))
    assert "gluon.<wbr>utils.<wbr>split_<wbr>and_<wbr>load(<wbr>X)" in made
    assert made.count("<wbr>") == 5
    wide = tables.mend(table(["a", "b"], ['<span class="pre">torch.device(x)</span>']))
    assert 'torch.<wbr class="narrow">device(' in wide, "whole where there is room"
    assert "x.to(d)" in made, "a short one need not be broken"
    assert tables.mend(code) == code, "outside of tables lines are long"


def test_plots_say_how_narrow_they_may_be(tmp_path):
    name = "_images/" + "0a" * 32 + ".png"
    for folder in ("_images", "chapters"):
        (tmp_path / folder).mkdir()
    header = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (800).to_bytes(4) + (300).to_bytes(4)
    (tmp_path / name).write_bytes(header)
    (tmp_path / "_images" / "drawing.svg").write_text("<svg width='700'/>", encoding="utf-8")
    page = f'<img alt="A plot" src="../{name}" /><img src="../_images/drawing.svg" />'
    made = plots.mend(page, tmp_path / "chapters")
    assert made.count("--legible") == 1
    assert 'style="--legible: 508px" alt="A plot"' in made
    assert plots.mend(made, tmp_path / "chapters") == made


def test_a_drawn_timeline_scrolls_where_its_letters_would_be_too_small(tmp_path):
    (tmp_path / "_images").mkdir()
    drawn = '<svg width="660"><style>.d2l-tl-text{font:11px sans-serif}</style></svg>'
    (tmp_path / "_images" / "step.svg").write_text(drawn, encoding="utf-8")
    page = '<img alt="A step" src="_images/step.svg" />'
    made = f'<div class="d2l-wide" style="--legible: 540px">{page}</div>'
    assert plots.mend(page, tmp_path) == plots.mend(made, tmp_path) == made


def test_a_timeline_that_is_too_wide_for_the_column_takes_the_margin():
    roomy = '<div class="output text_html"><div class="d2l-tl">\n<svg></svg>\n</div>\n</div>\n'
    crowded = roomy.replace("</svg>", '</svg><div class="d2l-tl-note">Boxes ...</div>')
    wide = crowded.replace("text_html", "text_html full-width")
    assert mended.mend(roomy + crowded + roomy) == roomy + wide + roomy
