"""Folds of the finished pages, made quiet.

A page that needs many helpers would show a heap of folds that nobody opens. Where three or more
stand in a row, one line names what they define, and each is a fold inside. What was checked is a
small line with a tick. Imports, helpers, checks and solutions stay folded on paper. A switch under
the title opens all folds but solutions (``assets/code.js``). An extension of Sphinx.
"""

import re
from pathlib import Path

FEWEST = 3
CELL = re.compile(
    r'(?s)<div class="cell tag_hide-cell[^"]*">\n<details class="admonition hide[^"]*">\n'
    r"<summary[^>]*>\n<p[^>]*>(?P<prompt>.*?)</p>.*?</details>\n</div>\n"
)
PROMPT = "Helper: "
UNPRINTED = re.compile(
    r'(<details class="admonition hide)(?! unprinted)(?=[^"]*">\n<summary[^>]*>\n<p[^>]*>'
    r"(?:Imports|Solution|Helper: |Checked: ))"
)
CHECK = re.compile(
    r'(<details class="admonition hide)([^"]*">\n<summary[^>]*>\n<p[^>]*>)Checked: '
    r"(.*?</p>\n<p[^>]*>)Checked: "
)
WORD = '<span class="visually-hidden">Checked: </span>'
DEFINED = re.compile(
    r'(?m)^(?:<span></span>)?<span class="k">(?:def|class)</span><span class="w"> </span>'
    r'<span class="n[fc]">(\w+)</span>'
)
GROUP = """\
<details class="cell d2l-helpers unprinted">
<summary>{count} helpers: {names}</summary>
{cells}</details>
"""
FIRST = re.compile(rf"(?<={re.escape(WORD)})[a-z](?=[a-z]*[\s,])")  # of a word, not of code


def rows(page):
    """Return the helpers of a page that stand in a row, as lists of matches."""
    found = []
    for cell in CELL.finditer(page):
        if not cell["prompt"].startswith(PROMPT):
            continue
        if found and found[-1][-1].end() == cell.start():
            found[-1].append(cell)
        else:
            found.append([cell])
    return [row for row in found if len(row) >= FEWEST]


def without_prompt(cell):
    """Return a helper that says what it does, and no more that it is one."""
    return re.sub(rf">{PROMPT}(\w?)", lambda first: f">{first[1].upper()}", cell[0])


def keep_folded(page):
    """Return the HTML of a page that says which folds stay closed on paper."""
    return UNPRINTED.sub(r"\1 unprinted", page)


def tick(page):
    """Return the HTML of a page whose checks are marked: a tick takes the place of the word."""
    marked = CHECK.sub(rf"\1 d2l-check\2{WORD}\3{WORD}", page)
    return FIRST.sub(lambda letter: letter[0].upper(), marked)


def group(page):
    """Return the HTML of a page whose helpers in a row are one fold."""
    for row in reversed(rows(page)):
        names = dict.fromkeys(name for cell in row for name in DEFINED.findall(cell[0]))
        made = GROUP.format(
            count=len(row),
            names=", ".join(f"<code>{name}</code>" for name in names),
            cells="".join(without_prompt(cell) for cell in row),
        )
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
    app.add_js_file("code.js", loading_method="defer")
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
