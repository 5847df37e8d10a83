"""The book as one PDF: order, bookmarks, links inside the file, folded cells open."""

import io
import os

import pytest
from pypdf import PdfReader

from tools import pdf
from tools.browser import find_browser

STYLE = '<link rel="stylesheet" href="book.css">'
ONE = """<!DOCTYPE html><html><head>{style}</head><body><article><h1>1. First</h1>
<p>Begin. <a href="two.html#end">The second</a>, <a href="files.zip">files</a>,
<a href="https://example.org/">elsewhere</a>.</p>
<details><summary>Solution</summary><pre>def answer(): return 42</pre></details>
</article></body></html>"""
TWO = "<!DOCTYPE html><html><body><article><h1>2. Second</h1><p id='end'>End.</p></article>"


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    if not find_browser():
        assert not os.environ.get("CI"), "no browser: apt-get install chromium"
        pytest.skip("no browser: chromium is not installed")
    folder = tmp_path_factory.mktemp("site")
    (folder / "book.css").write_text((pdf.ROOT / "assets" / "book.css").read_text())
    (folder / "one.html").write_text(ONE.format(style=STYLE))
    (folder / "two.html").write_text(TWO)
    (folder / "index.html").write_text("")
    (folder / "_toc.yml").write_text("root: one\nparts:\n  - chapters:\n      - file: two\n")
    assert pdf.main(folder, folder / "book.pdf", folder) == 0
    return PdfReader(io.BytesIO((folder / "book.pdf").read_bytes()))


def test_pages_are_in_order_and_have_bookmarks(book):
    text = [page.extract_text() for page in book.pages]
    assert "Begin." in text[0]
    assert "End." in text[-1]
    chapters = [entry for entry in book.outline if not isinstance(entry, list)]
    assert [entry.title for entry in chapters] == ["1. First", "2. Second"]
    assert [book.get_destination_page_number(entry) for entry in chapters] == [0, 1]
    assert book.metadata.title == "1. First"


def test_what_is_folded_is_open(book):
    assert "def answer(): return 42" in book.pages[0].extract_text()


def test_links_lead_to_places_inside_the_file(book):
    links = [link.get_object() for link in book.pages[0]["/Annots"]]
    addresses = [str(link["/A"]["/URI"]) for link in links if "/A" in link]
    assert addresses == ["https://example.org/"], "no address of the machine that printed it"
    (inside,) = [link for link in links if "/Dest" in link]
    assert book.pages[1].indirect_reference == inside["/Dest"][0] or inside["/Dest"][0] == 1


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
