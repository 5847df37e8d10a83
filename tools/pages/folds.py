"""Folds of the finished pages, made quiet.

A page that needs many helpers would show a heap of folds that nobody opens. Where three or more
stand in a row, one line names what they define, and each is a fold inside. What was checked is a
small line with a tick. On paper imports, helpers, solutions and what draws pictures are left out,
and of checks the lines stay. What a fold is, the tags of its cell say (`tools.notebooks`). A switch
under the title opens all folds but solutions (``assets/code.js``). An extension of Sphinx.
"""

import re
from pathlib import Path

from tools import words
from tools.words import say, split_prompt

FEWEST = 3
CELL = re.compile(
    r'(?s)<div class="cell (?P<tags>[^"]*\btag_hide-cell\b[^"]*)">\n'
    r'<details class="admonition hide[^"]*">\n<summary[^>]*>\n<p[^>]*>.*?</details>\n</div>\n'
)
OPENING = re.compile(
    r'(?P<cell><div class="cell (?P<tags>[^"]*)">\n<details class="admonition hide)'
    r'(?P<classes>[^"]*)(?P<titles>">\n<summary[^>]*>\n<p[^>]*>.*?</p>\n<p[^>]*>.*?</p>)'
)
TITLE = re.compile(r'(?<=admonition-title">)(.*?)(?=</p>)')
CLOSED = {"tag_imports", "tag_solution", "tag_helper", "tag_check", "tag_picture"}  # on paper
WORD = '<span class="visually-hidden">{}</span>{}'
FIRST = re.compile(r"[a-z]+[\s,]")  # a word, not code
DEFINED = re.compile(
    r'(?m)^(?:<span></span>)?<span class="k">(?:def|class)</span><span class="w"> </span>'
    r'<span class="n[fc]">(\w+)</span>'
)
GROUP = """\
<details class="cell d2l-helpers unprinted">
<summary>{title}</summary>
{cells}</details>
"""


def rows(page):
    """Return the helpers of a page that stand in a row, as lists of matches."""
    found = []
    for cell in CELL.finditer(page):
        if "tag_helper" not in cell["tags"].split():
            continue
        if found and found[-1][-1].end() == cell.start():
            found[-1].append(cell)
        else:
            found.append([cell])
    done = "</summary>\n"  # stands before those that are in one fold already
    return [r for r in found if len(r) >= FEWEST and not page[: r[0].start()].endswith(done)]


def capital(text):
    """Return a text as a sentence begins; a translation is left as it is."""
    return text if words.table() else text[:1].upper() + text[1:]


def without_prompt(cell):
    """Return a helper that says what it does, and no more that it is one."""
    return TITLE.sub(lambda title: capital(split_prompt(title[1])[1]), cell[0])


def keep_folded(page):
    """Return the HTML of a page that says which folds stay closed on paper."""

    def kept(fold):
        if not CLOSED & set(fold["tags"].split()) or "unprinted" in fold["classes"]:
            return fold[0]
        return f"{fold['cell']} unprinted{fold['classes']}{fold['titles']}"

    return OPENING.sub(kept, page)


def tick(page):
    """Return the HTML of a page whose checks are marked: a tick takes the place of the word."""

    def marked(fold):
        if "tag_check" not in fold["tags"].split() or "d2l-check" in fold["classes"]:
            return fold[0]
        titles = TITLE.sub(lambda title: ticked(*split_prompt(title[1])), fold["titles"])
        return f"{fold['cell']} d2l-check{fold['classes']}{titles}"

    return OPENING.sub(marked, page)


def ticked(word, said):
    """Return the title of a check, whose first word is for screen readers alone."""
    return WORD.format(word, capital(said) if FIRST.match(said) else said)


def group(page):
    """Return the HTML of a page whose helpers in a row are one fold."""
    for row in reversed(rows(page)):
        names = dict.fromkeys(name for cell in row for name in DEFINED.findall(cell[0]))
        title = say(
            "{count} helpers: {names}",
            count=len(row),
            names=", ".join(f"<code>{name}</code>" for name in names),
        )
        made = GROUP.format(title=title, cells="".join(without_prompt(cell) for cell in row))
        page = page[: row[0].start()] + made + page[row[-1].end() :]
    return page


def finish(app, exception):
    """Mend the folds of all pages."""
    if exception or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        made = group(tick(keep_folded(page)))
        if made != page:
            path.write_text(made, encoding="utf-8")


def setup(app):
    """Register with Sphinx."""
    words.load(app)
    app.add_js_file("code.js", loading_method="defer")
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
