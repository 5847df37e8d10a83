"""Plots of the finished pages: how narrow they may become before their letters cannot be read."""

import re
import struct

PLOT = re.compile(r'<img (?=[^>]*src="([^"]*_images/[0-9a-f]{32,}\.png)")(?![^>]*style=)')
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

    return PLOT.sub(plot, page)
