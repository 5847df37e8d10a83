"""The book's mark."""

from __future__ import annotations

from simgpu.units import INK, MUTED
from tools.canvas import GPU, Canvas


def logo() -> Canvas:
    """Draw the book's mark: four tiles in a ring, and its name."""
    canvas = Canvas(
        330,
        92,
        "Dive into Multi-GPU Training",
        "The book's mark: four coloured tiles joined by arrows into a ring, and the book's name.",
        scale=1,
    )
    tiles = ((14, 14), (52, 14), (52, 52), (14, 52))
    for (x, y), colour in zip(tiles, GPU, strict=True):
        canvas.rect(x, y, 26, 26, colour, rx=5)
    for (x0, y0), (x1, y1) in zip(tiles, (*tiles[1:], tiles[0]), strict=True):
        dx, dy = (x1 - x0) / 38, (y1 - y0) / 38
        start = (x0 + 13 + 13 * dx, y0 + 13 + 13 * dy)
        end = (x1 + 13 - 12.5 * dx, y1 + 13 - 12.5 * dy)
        canvas.arrow(start, end, colour=INK, width=3, head=8)
    canvas.text(98, 32, "Dive into", 18, "start", MUTED)
    canvas.text(98, 60, "Multi-GPU Training", 20, "start", INK, bold=True, fit=226)
    return canvas
