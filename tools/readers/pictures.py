"""Timelines as pictures: an SVG document for browsers, and a PNG for viewers that trust nothing."""

import base64
import copy
import hashlib
import io
import os
import re
from functools import cache as remembered
from html import escape
from pathlib import Path
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
ROW, GAP, CHARACTER = 18, 14, 6.6  # of the legend, in pixels
INK = "svg{color:#1a1a1a;background:#fff}"
DARK = "@media(prefers-color-scheme:dark){svg{color:#e6e6e6;background:#14181e}}"
FONT = "DejaVu Sans"

_BARE = re.compile(r"<svg(?![^>]*xmlns)")  # HTML need not name the namespace
_RULES = re.compile(r"\.d2l-tl-(?:text|boxes|lane|grid)[^{}]*\{[^{}]*\}")

ElementTree.register_namespace("", SVG)


def is_timeline(html):
    """Return whether an output in HTML is a timeline."""
    return html.lstrip().startswith('<div class="d2l-tl"')


def described(html, metadata):
    """Return a timeline whose label begins with the sentence in the metadata of its cell.

    Examples
    --------
    >>> says = {"mystnb": {"image": {"alt": "Two lanes take turns."}}}
    >>> described('<svg role="img" aria-label="Timeline of 4 spans">', says)
    '<svg role="img" aria-label="Two lanes take turns. Timeline of 4 spans">'
    """
    said = metadata.get("mystnb", {}).get("image", {}).get("alt", "")
    label = 'role="img" aria-label="'
    return html.replace(label, f"{label}{escape(said)} ", 1) if said else html


def document(html):
    """Return a timeline's SVG, alt text, width and height: legend, lanes and notes as one picture.

    Parameters
    ----------
    html : str
        What the timeline shows in a notebook: a legend, the lanes' names, the plot, notes.
    """
    root = ElementTree.fromstring(_BARE.sub(f'<svg xmlns="{SVG}"', html))
    names, plot = root.find("div[@class='d2l-tl-body']").iter(f"{{{SVG}}}svg")
    left, width = int(names.get("width")), int(names.get("width")) + int(plot.get("width"))
    svg = ElementTree.Element(f"{{{SVG}}}svg", {"role": "img"})
    rules = _RULES.findall("".join(element.text for element in root.iter("style")))
    ElementTree.SubElement(svg, f"{{{SVG}}}style").text = "".join(rules) + INK + DARK
    top = _add_legend(svg, root, left, width)
    for part, x in ((names, 0), (plot, left)):
        part = copy.deepcopy(part)
        part.attrib.update(x=str(x), y=str(top))
        svg.append(part)
    height = top + int(plot.get("height")) + 6
    for note in root.iter("div"):
        if note.get("class") == "d2l-tl-note":
            height = _add_lines(svg, "".join(note.itertext()), height, width)
    alt = plot.get("aria-label", "Timeline")
    size = {"width": str(width + 6), "height": str(height), "viewBox": f"0 0 {width + 6} {height}"}
    svg.attrib.update(size, **{"aria-label": alt})
    return ElementTree.tostring(svg, encoding="unicode"), alt, width + 6, height


def _text(svg, x, y, text):
    element = ElementTree.SubElement(
        svg, f"{{{SVG}}}text", {"class": "d2l-tl-text", "x": f"{x:.1f}", "y": f"{y:.1f}"}
    )
    element.text = text


def _add_legend(svg, root, left, width):
    """Draw the legend at the top; return where it ends."""
    x, y = left, 6
    spans = [span for span in root.iter("span") if span.find(f"{{{SVG}}}svg") is not None]
    for span in spans:
        room = 23 + len("".join(span.itertext())) * CHARACTER
        if x > left and x + room > width:
            x, y = left, y + ROW
        group = ElementTree.SubElement(svg, f"{{{SVG}}}g", {"class": "d2l-tl-boxes"})
        group.set("transform", f"translate({x:.1f} {y})")
        group.extend(span[0])
        _text(svg, x + 23, y + 10, "".join(span.itertext()).strip())
        x += room + GAP
    return y + ROW + 4 if spans else 0


def _add_lines(svg, text, y, width):
    """Write a note in as many lines as it takes; return where it ends."""
    line = ""
    for word in [*text.split(), ""]:
        if word and (len(line) + len(word)) * CHARACTER < width - 20:
            line = f"{line} {word}".strip()
            continue
        _text(svg, 8, y + 12, line)
        y, line = y + 16, word
    return y + 4


@remembered
def _fonts():
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return [str(path) for path in sorted(folder.glob("DejaVuSans*.ttf")) if "Dis" not in path.stem]


def png(svg, zoom=2):
    """Return an SVG document as PNG, enlarged, in few colours, with fonts of our own."""
    import resvg_py
    from PIL import Image

    pixels = resvg_py.svg_to_bytes(
        svg_string=svg.replace(DARK, "").replace("system-ui,", ""),
        background="white",
        zoom=zoom,
        dpi=96,
        skip_system_fonts=True,
        font_files=_fonts(),
        font_family=FONT,
        serif_family=FONT,
        sans_serif_family=FONT,
        monospace_family=f"{FONT} Mono",
    )
    small = io.BytesIO()
    image = Image.open(io.BytesIO(bytes(pixels))).convert("RGB")
    image.quantize(96, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def drawn(svg, cache=None, zoom=2):
    """Return an SVG document as PNG, taken from a folder if it was drawn before."""
    if cache is None:
        return png(svg, zoom)
    path = Path(cache) / f"{hashlib.sha256(svg.encode()).hexdigest()[:24]}-{zoom}.png"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(png(svg, zoom))
        os.replace(temporary, path)
    return path.read_bytes()


def static(html, cache=None):
    """Return a timeline's output for any viewer: data and metadata of a notebook's output.

    The HTML has the SVG, with what it says under the pointer, in an ``object``. A viewer that does
    not trust it drops the ``object`` and keeps what stands in it for this case, the PNG.
    """
    svg, alt, width, height = document(html)
    picture = base64.b64encode(drawn(svg, cache)).decode()
    drawing = base64.b64encode(svg.encode()).decode()
    alt = escape(alt)
    data = {
        "text/html": (
            f'<object class="d2l-timeline" type="image/svg+xml" width="{width}" height="{height}" '
            f'data="data:image/svg+xml;base64,{drawing}">'
            f'<img alt="{alt}" width="{width}" height="{height}" '
            f'src="data:image/png;base64,{picture}"></object>'
        ),
        "image/png": picture + "\n",
    }
    return data, {"image/png": {"width": width, "height": height}}
