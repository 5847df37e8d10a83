"""The book as one PDF: order, bookmarks, links inside the file, folded cells open."""

import io

import pytest
from pypdf import PdfReader
from pypdf.generic import NullObject

from tools.chromium import pdf
from tools.chromium.browser import find_browser

STYLE = '<link rel="stylesheet" href="book.css">'
ONE = """<!DOCTYPE html><html><head>{style}</head><body><article><h1>1. First</h1>
<p>Begin. <a href="two.html#end">The second</a>, <a href="files.zip">files</a>,
<a href="https://example.org/">elsewhere</a>.</p>
<details><summary>Solution</summary><pre>def answer(): return 42</pre></details>
<p>{long}<a href="#end">Down</a>, <a href="two.html#%C3%BCber">over</a>,
<a href="two.html">two</a>, <a href="two.html#missing">nowhere</a></p>
{long}<p id="end">First end.</p></article></body></html>"""
TWO = """<!DOCTYPE html><meta charset="utf-8"><html><body><article><h1>2. Second</h1>{long}
<p id="end">Second end.</p>
<p><a href="#end">Up</a></p>{long}<h2 id="über">Over</h2></article>"""
MENU = """<ul><li><a href="downloads/notebooks.zip" download title="All">
<i class="fas fa-file-archive"></i> <span>All notebooks</span></a>
</li>
</ul>"""
LONG = "<p>Line.</p>" * 60


@pytest.fixture(scope="module")
def book(chromium, tmp_path_factory):
    """Print a site of two pages; return the file."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "book.css").write_text((pdf.ROOT / "assets" / "book.css").read_text())
    (folder / "one.html").write_text(ONE.format(style=STYLE, long=LONG))
    (folder / "two.html").write_text(TWO.format(long=LONG), encoding="utf-8")
    (folder / "index.html").write_text("")
    (folder / "_toc.yml").write_text("root: one\nparts:\n  - chapters:\n      - file: two\n")
    assert pdf.main(folder, folder / "book.pdf", folder) == 0
    return PdfReader(io.BytesIO((folder / "book.pdf").read_bytes()))


def test_pages_are_in_order_and_have_bookmarks(book):
    text = [page.extract_text() for page in book.pages]
    assert "Begin." in text[0]
    assert "Over" in text[-1]
    chapters = [entry for entry in book.outline if not isinstance(entry, list)]
    assert [entry.title for entry in chapters] == ["1. First", "2. Second"]
    starts = [next(i for i, t in enumerate(text) if title in t) for title in ("First", "Second")]
    assert [book.get_destination_page_number(entry) for entry in chapters] == starts
    assert starts[1] >= 3
    assert book.metadata.title == "1. First"


def test_what_is_folded_is_open(book):
    assert "def answer(): return 42" in book.pages[0].extract_text()


def text_at(page, height):
    """Return the first text, other than what fills the pages, in the inch below a height."""
    found = []

    def note(text, outer, inner, *rest):
        top = outer[1] * inner[4] + outer[3] * inner[5] + outer[5]
        if text.strip() not in ("", "Line.") and height - 72 < top < height:
            found.append((top, text.strip()))

    page.extract_text(visitor_text=note)
    return max(found)[1]


def test_links_lead_to_places_inside_the_file(book):
    links = [a.get_object() for page in book.pages for a in page.get("/Annots", [])]
    addresses = [str(link["/A"]["/URI"]) for link in links if "/A" in link]
    assert addresses == ["https://example.org/"], "no address of the machine that printed it"
    targets = [link["/Dest"] for link in links if "/Dest" in link]
    pages = [next(p for p in book.pages if p.indirect_reference == t[0]) for t in targets]
    found = [
        text_at(page, page.mediabox.top if isinstance(target[3], NullObject) else target[3])
        for target, page in zip(targets, pages, strict=True)
    ]
    first = "Second end.", "First end.", "Over", "2. Second", "2. Second"
    assert found == [*first, "Second end."], "an id that both pages have is two places"


def test_where_something_is_missing_it_says_what(tmp_path, monkeypatch, capsys):
    assert pdf.main(tmp_path, tmp_path / "book.pdf") == 1
    monkeypatch.setattr(pdf, "find_browser", lambda: None)
    assert pdf.main(tmp_path, tmp_path / "book.pdf") == 1
    said = capsys.readouterr().err
    assert "Chromium" in said
    if find_browser():
        assert "make book" in said


def test_the_order_is_that_of_the_table_of_contents():
    names = pdf.page_names()
    assert names[0] == "intro"
    assert names.index("chapters/devices") < names.index("chapters/pipeline-parallelism")


def test_the_front_page_offers_the_file_once(tmp_path):
    target = tmp_path / "pdf" / "book.pdf"
    target.parent.mkdir()
    target.write_bytes(b"1")
    pdf.offer(tmp_path, target)
    assert not (tmp_path / "downloads").exists(), "there is no front page"
    (tmp_path / "intro.html").write_text(MENU)
    for content in (b"1", b"2"):
        target.write_bytes(content)
        pdf.offer(tmp_path, target)
    page = (tmp_path / "intro.html").read_text()
    assert page.startswith(MENU.removesuffix("</ul>"))
    assert page.count("<li>") == page.count("</li>") == 2
    assert page.count('href="downloads/book.pdf" download title="All pages in one file"') == 1
    assert page.count(">The book as PDF<") == 1
    assert (tmp_path / "downloads" / "book.pdf").read_bytes() == b"2"
