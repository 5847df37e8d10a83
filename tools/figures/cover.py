"""The pictures of the front page: a cover without words, and the book's mark."""

from __future__ import annotations

from itertools import pairwise

from d2lmini.units import INK, MUTED
from tools.figures.canvas import GPU, LINK, Canvas, tint

NET = (3, 4, 3, 2)  # dots in each layer of the little networks


def _chip(canvas: Canvas, x: float, y: float, size: float, colour: str) -> None:
    """Draw a chip with pins, and a small network on it."""
    pin, pins = size * 0.075, 6
    for i in range(pins):
        offset = size * (0.16 + 0.68 * i / (pins - 1))
        for p0, p1 in (
            ((x + offset, y - pin), (x + offset, y)),
            ((x + offset, y + size), (x + offset, y + size + pin)),
        ):
            canvas.line(p0, p1, colour=tint(colour, 0.6), width=4)
    canvas.rect(x, y, size, size, tint(colour, 0.14), colour, rx=size * 0.1, width=3)
    layers = []
    for i, count in enumerate(NET):
        cx = x + size * (0.18 + 0.64 * i / (len(NET) - 1))
        ys = [y + size * (0.5 + 0.2 * (j - (count - 1) / 2)) for j in range(count)]
        layers.append([(cx, cy) for cy in ys])
    for before, after in pairwise(layers):
        for a in before:
            for b in after:
                canvas.line(a, b, colour=tint(colour, 0.5), width=1.2)
    for layer in layers:
        for cx, cy in layer:
            canvas.circle(cx, cy, size * 0.045, colour)


def cover() -> Canvas:
    """Draw four chips in a ring above the timeline of one training step."""
    canvas = Canvas(
        960,
        340,
        "Four GPUs train one network",
        "A decoration: four chips, each with a copy of the same small network, joined by arrows "
        "into a ring; below them four lanes of coloured blocks, one step of training on each, "
        "with the exchange of gradients between the steps.",
        scale=1,
    )
    size, top, first, pitch = 128, 26, 62, 236
    for gpu, colour in enumerate(GPU):
        x = first + pitch * gpu
        _chip(canvas, x, top, size, colour)
        if gpu:
            y = top + size / 2
            canvas.arrow((x - pitch + size + 12, y), (x - 12, y), colour=LINK, width=4, head=16)
    # The way back of the ring, below the chips.
    x0, x1, y = first + 3 * pitch + size / 2, first + size / 2, top + size + 40
    points = ((x0, top + size + 14), (x0, y), (x1, y), (x1, top + size + 12))
    canvas.arrow(*points, colour=LINK, width=4, head=16)
    lanes = 220
    for gpu, colour in enumerate(GPU):
        y = lanes + 28 * gpu
        for step in range(3):
            x, late = first + 280 * step, 5 * ((2 * gpu + step) % 3)
            canvas.rect(x, y, 76 + late, 12, tint(colour, 0.45), rx=4)
            canvas.rect(x + 80 + late, y, 134 - late, 12, colour, rx=4)
            canvas.rect(x + 256, y, 16, 12, MUTED, rx=4)
            for start, length in ((140, 50), (194, 58)):
                canvas.rect(x + start, y + 15, length, 5, LINK, rx=2.5)
    return canvas


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
