"""The book's pages: lighter, and readable for everybody.

An extension of Sphinx. `formulas` writes MathML, `icons` brings what the pages need of an icon set,
`mended` repairs the theme's HTML, `footer` stands below each page, `described` says what timelines
show; `tables` and `plots` make pages fit for phones.
"""

import runpy
from pathlib import Path

from tools import words
from tools.pages import described, footer, formulas, icons, mended, plots

WIDGET = Path(__file__).parents[2] / "simgpu" / "timeline" / "widget.py"


def start(app):
    """Write what all pages link: the style sheet of the icons, and the script of the timelines."""
    if app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    static.mkdir(parents=True, exist_ok=True)
    (static / "icons.css").write_text("", encoding="utf-8")  # known when all pages are written
    script = runpy.run_path(str(WIDGET))["script"]()  # without the package, and so without PyTorch
    (static / "timeline.js").write_text(script, encoding="utf-8")
    app.add_css_file("icons.css")


def add_own(app, page, *_):
    """Link what the front page alone needs, and what the page that searches does."""
    if app.builder.format == "html" and page == app.config.root_doc:
        app.add_css_file("front.css")
        app.add_js_file("front.js", loading_method="defer")
    if app.builder.format == "html" and page == "search":
        app.add_js_file("search.js", loading_method="defer")


def finish(app, exception):
    """Mend the pages, and write the icons that they show."""
    if exception or app.builder.format != "html":
        return
    used = set()
    for path in sorted(Path(app.outdir).rglob("*.html")):
        if path.parent.name == "_static":
            continue
        page = path.read_text(encoding="utf-8")
        mended_page = plots.mend(mended.mend(page), path.parent)
        if mended_page != page:
            path.write_text(mended_page, encoding="utf-8")
        used |= icons.names(mended_page)
    static = Path(app.outdir) / "_static"
    (static / "icons.css").write_text(icons.sheet(used), encoding="utf-8")
    mended.mend_scripts(static)
    mended.mend_sheets(static)
    mended.drop_unused(static)


def setup(app):
    """Register with Sphinx."""
    words.load(app)
    described.setup(app)
    footer.setup(app)
    formulas.setup(app)
    app.connect("builder-inited", start)
    app.connect("html-page-context", add_own)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
