"""What the extension makes of formulas, icons, descriptions and the theme's pages."""

import xml.etree.ElementTree as ET

import pytest
from fontTools.ttLib import TTFont
from sphinx.errors import ExtensionError

from tools.pages import fonts, icons, mended, shared
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


def test_icons_are_found_and_drawn():
    page = '<i class="fas fa-download"></i><i class="theme-switch fa-solid fa-moon fa-lg"></i>'
    assert icons.names(page) == {"download", "moon"}
    sheet = icons.sheet({"list", "file-archive"})
    assert sheet.count("data:image/svg+xml") == 2
    with pytest.raises(ValueError, match="no icon is called nosuchicon"):
        icons.sheet({"nosuchicon"})


def test_fonts_have_the_characters_and_nothing_else(tmp_path):
    fonts.write(tmp_path / "static", tmp_path / "cache")
    formula = TTFont(tmp_path / "static" / "fonts" / "formula.woff")
    assert {ord("x"), 0x2211, 0x1D465} <= set(formula.getBestCmap())
    assert "MATH" in formula, "what places indices and fractions"
    assert 0x4E00 not in formula.getBestCmap()
    sizes = [path.stat().st_size for path in (tmp_path / "static" / "fonts").iterdir()]
    assert sum(sizes) < 250_000
    sheet = (tmp_path / "static" / "fonts.css").read_text()
    assert sheet.count("@font-face") == len(fonts.FONTS)


def test_the_theme_is_mended():
    page = '<script defer src="_static/scripts/fontawesome.js?digest=1"></script>\n'
    page += '<script src="_static/searchtools.js"></script>'
    page += '<summary aria-label="Toggle hidden content">x</summary>'
    assert mended.mend(page) == "<summary>x</summary>"
    assert "searchtools" in mended.mend(page + '<div id="search-results"></div>')


def test_a_description_ends_with_a_sentence():
    text = "One sentence. " * 30
    short = shared.shorten(text)
    assert short.endswith("One sentence.")
    assert 150 < len(short) <= shared.LONGEST
    assert shared.shorten("x" * 50) == "x" * 50


def test_what_stands_in_a_head_is_escaped():
    made = shared.tags('A "title"', "less < more", "a.png")
    assert 'content="A &quot;title&quot;"' in made
    assert "less &lt; more" in made
    assert "og:url" not in made, "no address is configured"
