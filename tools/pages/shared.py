"""What a shared link of a page shows: its title, its first sentences and a picture.

The services that show it want whole addresses. ``html.baseurl`` in ``_config.yml`` is where they
begin; without it no page says where it is, and where its picture is it says as seen from there.
"""

import html
import posixpath
import re
from pathlib import Path

import resvg_py
from docutils import nodes
from sphinx.errors import ConfigError

LONGEST = 200
COVER = "assets/front/timeline.svg"  # for a page without a picture
FRONT_DOOR = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<title>{title}</title>
<meta http-equiv="refresh" content="0; url={page}" />
<link rel="icon" href="_static/{icon}" />
{tags}
</head>
<body><p><a href="{page}">{title}</a></p></body>
</html>
"""
TAG = re.compile(r'<meta (?:name="description"|property="og:\w+") content="[^"]*" />')
TIME_LINE = re.compile(r"^\d+ minutes? to read")


def check(app, config):
    """Refuse an address of the book that is none."""
    base = config.html_baseurl
    if base and not re.match(r"https?://[^/]", base):
        raise ConfigError(f"html.baseurl is {base!r}: write https://, then where the book is")


def first_paragraph(document):
    """Return the first sentences of a page, at most about two lines of them."""
    for paragraph in document.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if len(text) > 40 and not TIME_LINE.match(text):
            return shorten(text)
    return ""


def shorten(text, longest=LONGEST):
    """Return whole sentences, or else whole words, up to a length.

    Examples
    --------
    >>> shorten("It works. It is fast, mostly.", 12)
    'It works.'
    >>> shorten("An endless sentence", 12)
    'An endless …'
    """
    if len(text) <= longest:
        return text
    sentence = text[: longest + 1].rpartition(". ")[0]
    if sentence:
        return sentence + "."
    return text[: longest - 1].rpartition(" ")[0] + " …"


def first_picture(document):
    """Return the file name of the first picture of a page, or an empty text."""
    names = (posixpath.basename(image.get("uri", "")) for image in document.findall(nodes.image))
    return next((name for name in names if name.endswith((".png", ".svg"))), "")


def as_png(drawing, target):
    """Write a drawing as the picture of a link, 1200 wide: services show no SVG."""
    if not target.exists() or target.stat().st_mtime < drawing.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        text = drawing.read_text(encoding="utf-8")
        size = re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"', text)
        svg = re.sub(r'(<svg[^>]*?) width="[^"]*"( height="[^"]*")?', r"\1", text, count=1)
        svg = svg.replace("<svg", f'<svg width="{size[1]}" height="{size[2]}"', 1)
        image = resvg_py.svg_to_bytes(svg_string=svg, width=1200, background="white")
        target.write_bytes(bytes(image))


def picture(app, page, document):
    """Return where the picture of a page is, as the page's own address says it."""
    shown = first_picture(document) if document is not None else ""
    sources = {name: source for source, (_, name) in app.env.images.items()}
    source = sources.get(shown, COVER)
    name = f"_images/{shown}"
    if source.endswith(".svg"):
        name = f"_static/shared/{posixpath.basename(source)[:-4]}.png"
        as_png(Path(app.srcdir) / source, Path(app.outdir) / name)
    base = app.config.html_baseurl
    if base:
        return posixpath.join(base, name)
    return posixpath.relpath(name, posixpath.dirname(page) or ".")


def tags(title, description, image, address=""):
    """Return the elements of a page's head that describe it."""
    found = {
        "og:title": title,
        "og:description": description,
        "og:type": "article",
        "og:image": image,
        "og:url": address,
    }
    lines = [f'<meta name="description" content="{html.escape(description)}" />']
    lines += [
        f'<meta property="{name}" content="{html.escape(content)}" />'
        for name, content in found.items()
        if content
    ]
    return "\n".join(lines)


def describe(app, pagename, templatename, context, document):
    """Add the description of a page to its head."""
    title = re.sub(r"<[^>]+>", "", context.get("title") or app.config.project)
    description = first_paragraph(document) if document is not None else ""
    base = app.config.html_baseurl
    made = tags(
        html.unescape(title),
        description or app.config.project,
        picture(app, pagename, document),
        base and posixpath.join(base, f"{pagename}.html"),
    )
    context["metatags"] = context.get("metatags", "") + made


def front_door(app):
    """Return the page that leads to the front page, whose name is another one."""
    page = f"{app.config.master_doc}.html"
    front_page = (Path(app.outdir) / page).read_text(encoding="utf-8").partition("</head>")[0]
    return FRONT_DOOR.format(
        title=html.escape(app.config.html_title or app.config.project),
        page=page,
        icon=posixpath.basename(app.config.html_favicon),
        tags="\n".join(TAG.findall(front_page)),
    )
