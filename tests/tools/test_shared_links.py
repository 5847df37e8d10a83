"""What a shared link shows: whole addresses where the book has one, none that is half of one."""

import re
import subprocess
import sys
from urllib.parse import urljoin, urlsplit

from support.paths import ROOT

CONF = """\
import sys
sys.path.insert(0, {root!r})
extensions = ["myst_parser", "tools.pages"]
project, html_theme, html_favicon, root_doc = "A book", "basic", "a.svg", "intro"
html_math_renderer, html_baseurl = "mathml", {base!r}
"""
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 4"><path d="M0 0h8"/></svg>'
WORDS = "These are words of which there are enough to say what the page is about."
PAGES = {
    "intro.md": f"# Begin\n\n{WORDS}\n\n```{{toctree}}\nchapters/one\n```\n",
    "chapters/one.md": f"# One\n\n![A line](../a.svg)\n\n{WORDS}\n",
}


def build(folder, base):
    """Build a book of two pages whose address is ``base``; return what is said and the pages."""
    (folder / "chapters").mkdir()
    (folder / "assets" / "front").mkdir(parents=True)
    for path in ("a.svg", "assets/front/timeline.svg"):
        (folder / path).write_text(PICTURE, encoding="utf-8")
    for name, text in PAGES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "conf.py").write_text(CONF.format(root=str(ROOT), base=base), encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", str(folder), str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, folder / "out"


def shared(page):
    """Return what a page says to those who get its link."""
    head = page.read_text(encoding="utf-8").partition("</head>")[0]
    return dict(re.findall(r'<meta property="og:(\w+)" content="([^"]*)"', head))


def test_without_an_address_nothing_pretends_to_have_one(tmp_path):
    done, out = build(tmp_path, "")
    assert done.returncode == 0, done.stderr
    for name in ("index", "intro", "chapters/one"):
        page = out / f"{name}.html"
        said = shared(page)
        assert "url" not in said
        assert not urlsplit(said["image"]).scheme
        assert (page.parent / said["image"]).exists(), "it is where the page says"
        assert said["description"] == WORDS


def test_with_an_address_all_addresses_are_whole(tmp_path):
    base = "https://example.org/a/book"
    done, out = build(tmp_path, base + "/")
    assert done.returncode == 0, done.stderr
    for name in ("intro", "chapters/one"):
        said = shared(out / f"{name}.html")
        assert said["url"] == f"{base}/{name}.html"
        assert said["image"].startswith(f"{base}/_static/")
        assert (out / said["image"].removeprefix(f"{base}/")).exists()
        assert urljoin(said["url"], said["image"]) == said["image"]
    assert shared(out / "index.html") == shared(out / "intro.html"), "that link is shared most"


def test_an_address_that_is_none_is_refused(tmp_path):
    done, _ = build(tmp_path, "example.org/book")
    assert done.returncode
    assert "html.baseurl is 'example.org/book': write https://" in done.stderr
