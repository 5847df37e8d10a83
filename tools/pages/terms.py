"""Definitions where they are needed; an extension of Sphinx.

The first use of each term of the glossary on a chapter's page becomes a link to its entry. The
entry's definition is hidden on the page: it describes the link to screen readers, and
``assets/terms.js`` shows it when the link is pointed at or has the focus.
"""

import re
from dataclasses import dataclass, field
from html import escape

from docutils import nodes
from sphinx import addnodes
from sphinx_design.dropdown import dropdown_title

from tools.pages import inflected

WHERE = "chapters/"  # the pages on which terms become links
# Words of everyday language: as terms they are in the glossary, but no use of them is marked.
COMMON = {
    "activations", "bandwidth", "device", "efficiency", "exposed", "kernel launch", "launch",
    "machine", "minibatch", "node", "overlap", "pipeline", "profile", "race", "ring", "schedule",
    "server", "shard", "simulated", "span", "speed-up", "speedup", "stage", "states", "trace",
    "tree",
}  # fmt: skip
# In other languages no name of an entry with such a word is marked, but for these entries: they are
# found by an English name.
TERMS_ANYWAY = {
    "exposed communication", "pipeline parallelism", "ring all-reduce", "timeline",
    "tree all-reduce",
}  # fmt: skip
_CLOSED = (  # a fold's title is a button, in which no link may stand
    nodes.title, dropdown_title, nodes.reference, nodes.literal, nodes.literal_block, nodes.math,
    nodes.math_block, nodes.raw, nodes.term, nodes.strong, nodes.thead, nodes.citation,
    nodes.comment, addnodes.pending_xref,
)  # fmt: skip


# How an entry leads to its section: no part of the definition.
SEE = re.compile(r"(?<=\.) See |(?<=\.) Bkz\. |(?<=。)参见|(?<=\.) (?=[^.]*참조\.)")


@dataclass
class Entry:
    """An entry of the glossary: its names, its place and its definition."""

    names: list
    place: str  # the page's name, "#" and the anchor
    definition: str
    key: str = field(init=False)

    def __post_init__(self):
        self.key = "term-" + re.sub(r"\W+", "-", self.names[0].lower()).strip("-")


def read_entries(doctree, docname):
    """Return the entries of the glossaries on a page; "See ..." does not belong to a definition."""
    entries = []
    for item in doctree.findall(nodes.definition_list_item):
        terms = [child for child in item.children if isinstance(child, nodes.term)]
        if not any(term["ids"] for term in terms):
            continue
        (definition,) = (c for c in item.children if isinstance(c, nodes.definition))
        text = " ".join(definition.astext().split())
        text = SEE.split(text)[0]
        names = [term.astext() for term in terms]
        anchors = [term["ids"][0] for term in terms]  # in letters that have none it is a number
        anchor = next((a for a in anchors if not re.fullmatch(r"term-\d+", a)), anchors[0])
        entries.append(Entry(names, f"{docname}#{anchor}", text))
    return entries


class Finder:
    """Finds uses of terms in texts of a language.

    Examples
    --------
    >>> finder = Finder([Entry(["bucket", "gradient bucket"], "glossary#b", "A group.")])
    >>> finder.first("Two gradient buckets, ...", set())
    (4, 20, 'bucket')
    """

    def __init__(self, entries, language="en"):
        language = language.partition("_")[0]  # "zh_CN"
        self.entries = {entry.names[0]: entry for entry in entries}
        names = {n: e.names[0] for e in entries for n in e.names if is_marked(n, e, language)}
        self.forms = {
            form: first for name, first in names.items() for form in inflected.forms(name, language)
        }
        self.pattern = inflected.pattern(self.forms, language)

    def first(self, text, known):
        """Return start, end and entry of the first use of a term that is not known, or None."""
        for match in self.pattern.finditer(text):
            if self.forms[match["name"]] not in known:
                return match.start(), match.end(), self.forms[match["name"]]
        return None


def is_marked(name, entry, language):
    """Return whether uses of a name are marked: English tells which words are everyday language."""
    names = set(entry.names)
    if language == "en" or names & TERMS_ANYWAY:
        return name not in COMMON
    return not names & COMMON


class Use(nodes.Inline, nodes.TextElement):
    """A use of a term, which links to the glossary."""


def open_link(writer, node):
    """Write the beginning of a use."""
    key, uri = escape(node["key"]), escape(node["refuri"])
    writer.body.append(f'<a class="term-use" href="{uri}" aria-describedby="{key}">')


def close_link(writer, node):
    """Write its end."""
    writer.body.append("</a>")


def is_closed(node):
    """Return whether a text stands where no term becomes a link."""
    while node is not None:
        if isinstance(node, _CLOSED) or {"cell", "d2l-guess"} & set(node.get("classes", ())):
            return True
        node = node.parent
    return False


def link_terms(doctree, finder, uri):
    """Make the first use of each term a link, in place.

    Parameters
    ----------
    doctree : docutils.nodes.document
    finder : Finder
    uri : callable
        Returns the address of an entry's place, from this page.

    Returns
    -------
    list of Entry
        Those that were found.
    """
    known = set()
    for strong in doctree.findall(nodes.strong):  # what the page itself defines
        if found := finder.first(strong.astext(), known):
            known.add(found[2])
    used = []
    for text in list(doctree.findall(nodes.Text)):
        if is_closed(text.parent):
            continue
        rest, parts = text.astext(), []
        while found := finder.first(rest, known):
            start, end, name = found
            entry = finder.entries[name]
            known.add(name)
            used.append(entry)
            parts.append(nodes.Text(rest[:start]))
            parts.append(Use("", rest[start:end], key=entry.key, refuri=uri(entry.place)))
            rest = rest[end:]
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(rest)])
    return used


def definitions(entries):
    """Return the hidden definitions of a page."""
    lines = (f'<span id="{e.key}" role="tooltip">{escape(e.definition)}</span>' for e in entries)
    return f'<div class="term-definitions" hidden>{"".join(lines)}</div>' if entries else ""


def glossary(app):
    """Return the finder of the book's terms, made once."""
    if not hasattr(app, "book_terms"):
        objects = app.env.get_domain("std").get_objects()
        pages = sorted({docname for _, _, kind, docname, _, _ in objects if kind == "term"})
        entries = [e for page in pages for e in read_entries(app.env.get_doctree(page), page)]
        app.book_terms, app.book_terms_used = Finder(entries, app.config.language), {}
    return app.book_terms


def resolve(app, doctree, docname):
    """Link the terms of a page."""
    if app.builder.format != "html" or not docname.startswith(WHERE):
        return

    def uri(place):
        page, _, anchor = place.partition("#")
        return f"{app.builder.get_relative_uri(docname, page)}#{anchor}"

    finder = glossary(app)
    app.book_terms_used[docname] = link_terms(doctree, finder, uri)


def add_definitions(app, pagename, templatename, context, doctree):
    """Put the definitions behind the text of a page."""
    used = getattr(app, "book_terms_used", {}).get(pagename)
    if used and "body" in context:
        context["body"] += definitions(used)


def setup(app):
    """Register with Sphinx."""
    app.add_node(Use, html=(open_link, close_link))
    app.connect("doctree-resolved", resolve)
    app.connect("html-page-context", add_definitions)
    app.add_js_file("terms.js", loading_method="defer")
    app.add_css_file("lookup.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
