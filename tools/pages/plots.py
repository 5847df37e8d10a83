"""Plots of the finished pages: how narrow they may become before their letters cannot be read.

So does a drawn timeline in a figure, which gets a box to scroll in.
"""

import re
import struct

PLOT = re.compile(r'<img (?=[^>]*src="([^"]*_images/[0-9a-f]{32,}\.png)")(?![^>]*style=)')
DRAWN = re.compile(r'(?<!px">)<img [^>]*src="([^"]*_images/[\w-]+\.svg)"[^>]*>')
LETTERS, LEAST = "d2l-tl-text{font:11px", 9 / 11  # of a timeline: 11 pixels, and 9 are legible
SHARE = 0.635  # of a plot's own width: letters of 10 points at 100 dots an inch have 9 pixels


def width(path):
    """Return the width of a PNG in pixels."""
    with path.open("rb") as file:
        return struct.unpack(">I", file.read(20)[16:])[0]


def mend(page, folder):
    """Return a page whose plots say their least width; the page lies in the folder."""

    def plot(found):
        least = round(SHARE * width(folder / found[1]))
        return f'<img style="--legible: {least}px" '

    def drawing(found):
        text = (folder / found[1]).read_text(encoding="utf-8")
        if LETTERS not in text:
            return found[0]
        least = round(LEAST * int(re.search(r'width="(\d+)"', text)[1]))
        return f'<div class="d2l-wide" style="--legible: {least}px">{found[0]}</div>'

    return DRAWN.sub(drawing, PLOT.sub(plot, page))
