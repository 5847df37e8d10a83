"""The first use of a term on a page leads to the glossary, and shows its definition."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from support.paths import ROOT
from support.samples import small_book

from tools.chromium.visits import new_visitor
from tools.pages import terms
from tools.readers import build
from tools.readers.book import Book

GLOSSARY = """\
# Words

```{glossary}
bucket
gradient bucket
  A group of *gradients*, see <the> paper. See [](chapters/one.ipynb#the-end-what-remains).

NCCL
  A library.

stage
  A part.

timeline
  A drawing.
```
"""
PAGE = """\
# NCCL in a title

Not `NCCL` in code, [NCCL](two.ipynb) in a link, nor $NCCL$; but NCCL here, and NCCL no more.
Each stage has Buckets and gradient buckets; an NCCL-like library, a multi-bucket and bucketful
are others.

A **timeline** is defined here, so that timelines need no link.
"""
CONF = """\
import sys
sys.path.insert(0, {root!r})
extensions = ["myst_nb", "sphinx_external_toc", "sphinxcontrib.bibtex", "sphinx_design",
              "tools.pages.terms"]
external_toc_path = "_toc.yml"
bibtex_bibfiles = ["references.bib"]
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_theme = "sphinx_book_theme"
html_static_path = [{assets!r}]
html_js_files = [["words.js", {{"defer": "defer", "priority": 100}}]]  # as tools.pages loads it
"""


class Uses(HTMLParser):
    """Collects the links of terms: ``{text: attributes}``, and the hidden definitions."""

    def __init__(self, text):
        super().__init__()
        self.uses, self.hidden, self._open = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get("class") == "term-use" or attrs.get("role") == "tooltip":
            self._open = attrs

    def handle_data(self, data):
        if self._open and "href" in self._open:
            self.uses.append((data, self._open))
        elif self._open:
            self.hidden[self._open["id"]] = data
        self._open = None


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the small book, with a glossary and a page of its own; return its pages."""
    root = small_book.write(tmp_path_factory.mktemp("book"))
    (root / "glossary.md").write_text(GLOSSARY)
    (root / "chapters" / "uses.md").write_text(PAGE)
    with (root / "_toc.yml").open("a") as toc:
        toc.write("      - file: chapters/uses\n      - file: glossary\n")
    (root / "conf.py").write_text(CONF.format(root=str(ROOT), assets=str(ROOT / "assets")))
    target = root / "_build" / "html"
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(root), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return target


@pytest.fixture(scope="module")
def page(built):
    return Uses((built / "chapters" / "uses.html").read_text())


@pytest.mark.process
def test_the_first_use_in_the_text_is_a_link_and_no_other(page):
    assert [text for text, _ in page.uses] == ["NCCL", "Buckets"]


@pytest.mark.process
def test_words_of_everyday_language_and_what_the_page_defines_are_no_links(page):
    assert not {"stage", "timeline", "timelines"} & {text for text, _ in page.uses}


@pytest.mark.process
def test_a_link_leads_to_the_entry(page, built):
    for _, attributes in page.uses:
        path, _, anchor = attributes["href"].partition("#")
        target = (built / "chapters" / path).resolve()
        assert target == built / "glossary.html"
        assert f'id="{anchor}"' in target.read_text()


@pytest.mark.process
def test_a_definition_describes_its_link(page):
    assert page.hidden == {
        "term-nccl": "A library.",
        "term-bucket": "A group of gradients, see <the> paper.",
    }
    assert {a["aria-describedby"] for _, a in page.uses} == set(page.hidden)


@pytest.mark.process
def test_other_pages_are_left_alone(built):
    for name in ("glossary", "intro", "chapters/one", "genindex"):
        text = (built / f"{name}.html").read_text()
        assert "term-use" not in text
        assert "term-definitions" not in text


@pytest.mark.process
def test_definitions_are_not_found_by_a_search_of_the_pages_that_hide_them(built):
    index = (built / "searchindex.js").read_text()
    names = re.search(r'docnames:\[([^\]]*)\]|"docnames": \[([^\]]*)\]', index)
    number = (names[1] or names[2]).replace('"', "").replace(" ", "").split(",")
    found = re.search(r'"?paper"?: ?(\[[^\]]*\]|\d+)', index)[1]
    assert str(number.index("chapters/uses")) not in re.findall(r"\d+", found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("All buckets.", "bucket"),
        ("Gradient buckets are", "bucket"),
        ("nccl", None),
        ("a stage", None),
        ("bucket_size", None),
        ("x.bucket", None),
    ],
)
def test_forms(text, found):
    entries = [
        terms.Entry(["bucket", "gradient bucket"], "g#b", "A group."),
        terms.Entry(["NCCL"], "g#n", "A library."),
        terms.Entry(["stage"], "g#s", "A part."),
    ]
    use = terms.Finder(entries).first(text, set())
    assert (use and use[2]) == found
    assert terms.Finder(entries).first(text, {found}) is None


@pytest.mark.parametrize(
    "text",
    ["A group. See Rings.", "Bir grup. Bkz. Halkalar.", "묶음이다. 고리 참조.", "一组。参见环。"],
)
def test_where_an_entry_leads_is_no_part_of_its_definition(text):
    assert terms.SEE.split(text)[0] in ("A group.", "Bir grup.", "묶음이다.", "一组。")


def test_a_book_without_a_glossary():
    assert terms.Finder([]).first("anything", set()) is None
    assert terms.definitions([]) == ""


SEEN = "document.querySelector('.term-box')?.textContent ?? ''"
LINK = "document.querySelector('a.term-use')"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_definitions_to_mouse_and_keyboard(built, tab, width):
    address = (built / "chapters" / "uses.html").as_uri()
    tab = new_visitor(tab)
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    tab.call("Emulation.setDeviceMetricsOverride", **size)
    tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
    tab.open(address)
    tab.wait(f"location.href == {address!r} && document.readyState == 'complete'")
    assert tab.ask(SEEN) == ""

    tab.ask(f"{LINK}.focus()")
    assert tab.wait(SEEN, 10) == "A library."
    box = "document.querySelector('.term-box').getBoundingClientRect()"
    assert 0 <= tab.ask(f"{box}.left") < tab.ask(f"{box}.right") <= width
    key = {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27}
    tab.call("Input.dispatchKeyEvent", type="keyDown", **key)
    assert tab.wait(f"{SEEN} == ''", 10)

    tab.ask(f"{LINK}.blur()")
    where = [tab.ask(f"{LINK}.getBoundingClientRect().{side} + 3") for side in ("x", "y")]
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=where[0], y=where[1])
    assert tab.wait(SEEN, 10) == "A library."
    middle = [tab.ask(f"{box}.{s}") for s in ("x + 5", "y + 5")]
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=middle[0], y=middle[1])
    assert tab.ask(SEEN) == "A library.", "it stays when the pointer is on it"
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=5, y=790)
    assert tab.wait(f"{SEEN} == ''", 10)


def test_readers_notebooks_have_the_entries_and_their_sections(tmp_path):
    root = small_book.write(tmp_path)
    (root / "glossary.md").write_text(GLOSSARY)
    with (root / "_toc.yml").open("a") as toc:
        toc.write("      - file: glossary\n")
    book = Book(root)
    (own,) = build.build_page(book, book.pages["glossary"]).notebook.cells
    assert "- **bucket**, gradient bucket: A group of *gradients*" in own.source
    assert "See [The end: what remains](../01-one.ipynb#The-end:-what-remains)." in own.source
    assert "{glossary}" not in own.source


def test_a_finger_opens_the_definition_in_place(built, tab):
    address = (built / "chapters" / "uses.html").as_uri()
    tab = new_visitor(tab)
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    tab.call("Emulation.setDeviceMetricsOverride", **size)
    tab.call("Emulation.setTouchEmulationEnabled", enabled=True)
    tab.open(address)
    tab.wait(f"location.href == {address!r} && document.readyState == 'complete'")

    def tap(x, y):
        tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    tab.ask(f"{LINK}.scrollIntoView({{block: 'center'}})")
    where = [tab.ask(f"{LINK}.getBoundingClientRect().{side} + 3") for side in ("x", "y")]
    tap(*where)
    assert tab.wait(SEEN, 10) == "A library. Glossary"
    assert tab.ask("location.href") == address, "the page is not left"
    assert "glossary.html#term-" in tab.ask("document.querySelector('.term-box a').href")
    tap(385, 795)
    assert tab.wait(f"{SEEN} == ''", 10)


def test_a_search_finds_the_entry_first_by_any_of_its_names(built, tab):
    for query, entry in (("NCCL", "term-NCCL"), ("gradient bucket", "term-gradient-bucket")):
        address = f"{(built / 'search.html').as_uri()}?q={query.replace(' ', '+')}"
        tab.open(address)
        tab.wait(f"location.href == {address!r} && document.readyState == 'complete'")
        first = "document.querySelector('#search-results li > a')?.getAttribute('href')"
        assert tab.wait(first, 30).split("#")[-1] == entry
