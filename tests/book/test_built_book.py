"""The built book as files: it loads nothing from the network, and its links lead somewhere."""

import html
import re

import pytest
from support.paths import ROOT
from support.samples.contents import toc_files

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]  # the first test waits for the book

LOADED = re.compile(
    r"<(?:script|img|iframe|audio|video|source|embed)\b[^>]*\bsrc\s*=\s*[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|<link\b(?![^>]*rel=[\"'](?:canonical|license)[\"'])[^>]*\bhref\s*=\s*[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|(?:@import|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)"
    r"|<script\b[^>]*>[^<]*https?://"
)


def test_pages_load_nothing_from_the_network(built):
    pages = list(built.rglob("*.html"))
    assert len(pages) >= len(toc_files())
    for page in pages:
        found = LOADED.search(page.read_text(encoding="utf-8"))
        assert not found, f"{page.name} loads {found[0]}"
    for sheet in [*built.rglob("*.css")]:
        found = LOADED.search(sheet.read_text(encoding="utf-8"))
        assert not found, f"{sheet.name} loads {found[0]}"


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/a.css">',
        "<style>@import 'https://x.example/a.css'</style>",
        '<script>const SOURCE = "https://cdn.example/x.js"</script>',
        '<img alt="x" src=https://x.example/a.png>',
    ],
)
def test_a_page_that_loads_something_would_be_found(tag):
    assert LOADED.search(tag)
    assert not LOADED.search('<a href="https://doi.org/10.1">a link is for the reader</a>')


FACE = re.compile(r'(?s)font-family: "([^"]+)";.*?font-style: (\w+);.*?unicode-range: ([^;]+);')
MATH = re.compile(r"(?s)<math\b.*?</math>")
NOT_TEXT = re.compile(r"(?s)<(script|style|pre|code|svg|math)\b.*?</\1>")


def covered(*families):
    """Return the characters that every upright face of these families has."""
    sheet = (ROOT / "assets" / "fonts" / "fonts.css").read_text(encoding="utf-8")
    faces = []
    for family, style, ranges in FACE.findall(sheet):
        if family in families and style == "normal":
            ends = [part.strip()[2:].split("-") for part in ranges.split(",")]
            faces.append({chr(c) for e in ends for c in range(int(e[0], 16), int(e[-1], 16) + 1)})
    return set.intersection(*faces)


def characters(markup):
    return {c for c in html.unescape(re.sub("<[^>]+>", "", markup)) if not c.isspace()}


def test_the_typefaces_have_all_characters_of_the_pages(built):
    text, formulas = covered("Book Text", "Book Sans"), covered("Book Math")
    assert "é" in text
    assert "中" not in text
    for page in built.glob("**/*.html"):
        body = page.read_text(encoding="utf-8").partition("</head>")[2]
        assert characters(NOT_TEXT.sub("", body)) - text == set(), page.name
        assert characters("".join(MATH.findall(body))) - formulas == set(), page.name


def test_links_between_pages_lead_somewhere(built):
    for page in built.glob("**/*.html"):
        for link in re.findall(r'<a [^>]*href="([^"#:?]+)(?:[#?][^"]*)?"', page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_helpers_in_a_row_are_one_line(built):
    page = (built / "chapters" / "accuracies.html").read_text(encoding="utf-8")
    assert re.findall(r"<summary>(\d) helpers: <code>", page) == ["7"]


def test_anchors_lead_somewhere(built):
    ids = {}
    for page in built.rglob("*.html"):
        ids[page] = set(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8")))
    for page in built.glob("**/*.html"):
        for link, anchor in re.findall(r'<a [^>]*href="([^"#:?]*)#([^"]+)"', page.read_text()):
            target = (page.parent / link).resolve() if link else page
            assert anchor in ids[target], f"{page.name} links to {link}#{anchor}"
