"""What pages need of Sphinx where the book has editions in other languages; an extension of it.

A page has the same anchors in all editions, those of the English one, and a menu that leads to the
same place in the others. A page that is not wholly translated says so. In the English book, built
by itself, nothing of this is seen.
"""

import json
import os
import re
from functools import cache
from html import escape
from pathlib import Path

from docutils import nodes
from myst_parser.mdit_to_docutils.base import DocutilsRenderer, clean_astext

from tools.editions import search
from tools.editions.languages import BUILT, ENGLISH, LANGUAGES
from tools.pages.terms import glossary
from tools.readers import book
from tools.words import say

ROOT = Path(__file__).parents[2]
EVERY = {ENGLISH.code: ENGLISH, **LANGUAGES}
WITHOUT_ITALICS = {"ko", "zh"}
LINK = re.compile(r'target="_blank"(?=\s+class="btn btn-sm btn-language-(\w+)[ "])')
KEEP_PLACE = """\
{
  const keep = () => document.querySelectorAll(".dropdown-language-buttons a").forEach((link) => {
    link.hash = location.hash;
  });
  addEventListener("DOMContentLoaded", keep);
  addEventListener("hashchange", keep);
}"""


@cache
def edition(root=ROOT):
    """Return what is known of this copy of the book: language, state, coverage of its pages."""
    path = root / "edition.json"
    if not path.exists():
        return {"language": ENGLISH.code, "draft": False, "pages": {}}
    return json.loads(path.read_text(encoding="utf-8"))


def languages_built():
    """Return the languages that are built; a single one needs no menu."""
    named = os.environ.get(BUILT, "").replace(",", " ").split()
    if unknown := set(named) - set(EVERY):
        raise ValueError(f"{BUILT}: no language {min(unknown)}; there are: {', '.join(EVERY)}")
    return [code for code in EVERY if code in {ENGLISH.code, *named}] if named else []


def slug(title):
    """Return the anchor of a heading: that of the English one."""
    return book.slug(title)


def name_in_english(generate):
    """Return MyST's function that names sections, changed to name them by the English heading."""

    def changed(renderer, token, level, node, title):
        words = clean_astext(title)
        generate(renderer, token, level, node, nodes.title("", book.english(words)))
        if place := node.get("slug"):
            line, anchor, _ = renderer._heading_slugs[place]
            renderer._heading_slugs[place] = (line, anchor, words)  # what links say

    return changed


def mark_latin_emphasis(app, doctree):
    """Say that emphasised words are English, where they have no letter of the edition's script."""
    for emphasis in doctree.findall(nodes.emphasis):
        if not any(map(search.is_paired, emphasis.astext())):
            emphasis["classes"].append("language-en")


def address(page, code, here=ENGLISH.code):
    """Return the address of a page in a language, relative to the same page in another one.

    Examples
    --------
    >>> address("chapters/devices", "ko"), address("intro", "en", here="ko")
    ('../ko/chapters/devices.html', '../intro.html')
    """
    up = "../" * (page.count("/") + (here != ENGLISH.code))
    return f"{up}{folder(code)}{page}.html"


def folder(code):
    """Return the folder of an edition below that of the English one."""
    return "" if code == ENGLISH.code else f"{code}/"


def set_base(app, config):
    """Let an edition know its own address, so that it is not taken for the English page."""
    if config.html_baseurl:
        config.html_baseurl = f"{config.html_baseurl.rstrip('/')}/{folder(edition()['language'])}"


def add_languages(app, page, template, context, doctree):
    """Offer the page in the other languages, to readers and to search engines."""
    here = edition()["language"]
    buttons = [
        {"type": "link", "url": address(page, code, here), "text": EVERY[code].name,
         "label": f"language-{code}"}
        for code in languages_built() if code != here
    ]  # fmt: skip
    if buttons and "header_buttons" in context:
        context["header_buttons"].append(
            {"type": "group", "icon": "fas fa-language", "tooltip": say("Language"),
             "label": "language-buttons", "buttons": buttons}
        )  # fmt: skip
    if buttons and app.config.html_baseurl and page in app.env.found_docs:
        base = app.config.html_baseurl.removesuffix(folder(here)).rstrip("/")
        codes = [(EVERY[code].hreflang, code) for code in languages_built()]
        links = [
            f'<link rel="alternate" hreflang="{name}" href="{base}/{folder(code)}{page}.html" />'
            for name, code in [*codes, ("x-default", ENGLISH.code)]
        ]
        context["metatags"] = "\n".join([context.get("metatags", ""), *links])


def say_what_is_english(app, page, template, context, doctree):
    """Say on top of a page what of it is not translated."""
    this = edition()
    if page not in app.env.found_docs or "body" not in context:
        return
    translated, missing, *_ = this["pages"].get(page, (0, 1))
    said = []
    if this["draft"] and page == app.config.root_doc:
        said.append(say("This edition is a draft, not yet read by a native reader."))
    if not translated:
        said.append(say("This page is still in English."))
        context["body"] = context["body"].replace("<section ", '<section lang="en" ', 1)
    elif missing:
        said.append(
            say(
                "{n} of {total} paragraphs are still in English.",
                n=missing,
                total=translated + missing,
            )
        )
    if said:
        lines = "".join(f"<p>{escape(words)}</p>" for words in said)
        context["body"] = f'<div class="d2l-edition" role="note">{lines}</div>' + context["body"]


def hand_over_terms(app, page, template, context, doctree):
    """Tell the page that searches which names a term has: what it shows first goes by English."""
    if page == "search":
        names = [entry.names for entry in glossary(app).entries.values()]
        words = json.dumps(names, ensure_ascii=False).replace("<", "\\u003c")
        app.add_js_file(None, body=f"window.BOOK_TERMS = {words};")


def finish(app, exception):
    """Name the language that each entry of the menu leads to; it opens in the same window."""
    if exception or app.builder.format != "html":
        return

    def named(link):
        return 'lang="{0}" hreflang="{0}"'.format(EVERY[link[1]].hreflang)

    for path in Path(app.outdir).rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        made = LINK.sub(named, page)
        if made != page:
            path.write_text(made, encoding="utf-8")


def setup(app):
    """Register with Sphinx."""
    here = edition()["language"]
    if languages_built():
        app.connect("html-page-context", add_languages, priority=700)  # behind the theme's own
        app.connect("build-finished", finish)
        app.add_js_file(None, body=KEEP_PLACE)
    if here != ENGLISH.code:
        search.setup(app)
        DocutilsRenderer.generate_heading_target = name_in_english(
            DocutilsRenderer.generate_heading_target
        )
        app.connect("config-inited", set_base)
        app.connect("html-page-context", say_what_is_english)
        app.connect("html-page-context", hand_over_terms)
    if here in WITHOUT_ITALICS:
        app.connect("doctree-read", mark_latin_emphasis)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
