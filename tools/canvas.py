"""Palette and drawing primitives shared by all figures.

Coordinates are in user units, y grows downwards. Most figures are `WIDTH` units wide, so that
text of `SMALL` units is still 11 px high on a telephone that shows the figure 360 px wide.
"""

from __future__ import annotations

import re
from math import atan2, cos, hypot, sin
from xml.sax.saxutils import escape

from simgpu.units import BLUE, GREEN, INK, ORANGE, PURPLE, VERMILION, WHITE

WIDTH = 440
SMALL, LARGE = 14, 16

# A colour means one thing.
GPU = (BLUE, GREEN, PURPLE, ORANGE)  # GPU 0, 1, 2, 3
HOST = "#6E7781"  # the CPU and its memory
LINK = VERMILION  # whatever crosses a link
LINK_TEXT = "#A84300"  # the same, dark enough for letters

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
DASH = "4 3"
ABSENT = "#8C959F"  # frames of what is not there: seen in light and in dark pages

# *italic*, _{subscript}, ^{superscript}
_MARKUP = re.compile(r"\*(?P<it>[^*]+)\*|_\{(?P<sub>[^}]+)\}|\^\{(?P<sup>[^}]+)\}")


def tint(colour: str, share: float = 0.16) -> str:
    """Mix `share` of `colour` with white, as an opaque hexadecimal colour."""
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (c - 255) * share):02X}" for c in channels)


def _num(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _spans(source: str, size: float) -> str:
    """Turn the little markup language into tspans; shifts are undone by the next piece."""
    out, position, shift = [], 0, 0.0

    def emit(text: str, style: str = "", to: float = 0.0) -> None:
        nonlocal shift
        if text:
            dy = f' dy="{_num(to - shift)}"' if to != shift else ""
            shift = to
            plain = not (dy or style)
            out.append(escape(text) if plain else f"<tspan{style}{dy}>{escape(text)}</tspan>")

    small = f' font-size="{_num(0.75 * size)}"'
    for match in _MARKUP.finditer(source):
        emit(source[position : match.start()])
        emit(match["it"] or "", ' font-style="italic"')
        emit(match["sub"] or "", small, 0.25 * size)
        emit(match["sup"] or "", small, -0.35 * size)
        position = match.end()
    emit(source[position:])
    return "".join(out)


class Canvas:
    """A figure that is being drawn; every method adds one mark on top of the earlier ones.

    Parameters
    ----------
    width, height : float
        Size in user units; the ``viewBox``.
    title, desc : str
        A short name and a full description, for readers who cannot see the figure.
    scale : float, default 1.25
        Pixels per unit where the page has room.
    """

    def __init__(
        self, width: float, height: float, title: str, desc: str, scale: float = 1.25
    ) -> None:
        self.width, self.height, self.scale = width, height, scale
        self.title, self.desc = title, desc
        self._marks: list[str] = []

    def svg(self) -> str:
        """Return the whole figure as the text of an SVG file."""
        w, h = _num(self.width), _num(self.height)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" '
            f'width="{_num(self.width * self.scale)}" height="{_num(self.height * self.scale)}" '
            f'role="img" aria-labelledby="title desc" font-family="{FONT}">'
        )
        lines = [
            head,
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="desc">{escape(self.desc)}</desc>',
            f'<rect width="{w}" height="{h}" rx="10" fill="{WHITE}"/>',
            *self._marks,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def rect(self, x, y, w, h, fill="none", stroke="none", rx=5, width=1.5, dash=None) -> None:
        """Draw a rectangle with rounded corners; (x, y) is its upper left corner."""
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        line = "" if stroke == "none" else f' stroke="{stroke}" stroke-width="{_num(width)}"{extra}'
        self._marks.append(
            f'<rect x="{_num(x)}" y="{_num(y)}" width="{_num(w)}" height="{_num(h)}" '
            f'rx="{_num(rx)}" fill="{fill}"{line}/>'
        )

    def circle(self, x, y, r, fill=WHITE, stroke="none", width=1.5) -> None:
        """Draw a circle around (x, y)."""
        line = "" if stroke == "none" else f' stroke="{stroke}" stroke-width="{_num(width)}"'
        self._marks.append(
            f'<circle cx="{_num(x)}" cy="{_num(y)}" r="{_num(r)}" fill="{fill}"{line}/>'
        )

    def text(
        self, x, y, source, size=SMALL, anchor="middle", fill=INK, bold=False, fit=None
    ) -> None:
        """Write one line, vertically centred at y.

        `fit` is the room it has, in units; it is stored with the text, for the tests to check.
        """
        attributes = f' text-anchor="{anchor}"' if anchor != "start" else ""
        attributes += ' font-weight="bold"' if bold else ""
        attributes += f' data-fit="{_num(fit)}"' if fit else ""
        self._marks.append(
            f'<text x="{_num(x)}" y="{_num(y + 0.35 * size)}" font-size="{_num(size)}" '
            f'fill="{fill}"{attributes}>{_spans(source, size)}</text>'
        )

    def box(
        self, x, y, w, h, label="", colour=HOST, share=0.16, dash=None, size=SMALL, bold=False
    ) -> None:
        """Draw a tinted box with a label in its middle; a newline in the label starts a line."""
        self.rect(x, y, w, h, tint(colour, share), colour, dash=dash)
        lines = label.split("\n") if label else []
        for i, line in enumerate(lines):
            middle = y + h / 2 + (i - (len(lines) - 1) / 2) * 1.2 * size
            self.text(x + w / 2, middle, line, size, bold=bold, fit=w - 4)

    def ghost(self, x, y, w, h) -> None:
        """Mark the place of something that is not here."""
        self.rect(x, y, w, h, "none", ABSENT, dash=DASH)

    def panel(self, x, y, w, h, heading="", colour=HOST) -> None:
        """Draw a device: a pale frame with its name at the top."""
        self.rect(x, y, w, h, tint(colour, 0.06), tint(colour, 0.55), rx=9)
        if heading:
            self.text(x + w / 2, y + 17, heading, LARGE, bold=True, fit=w - 8)

    def badge(self, x, y, label, colour=INK) -> None:
        """Draw a numbered disc around (x, y)."""
        self.circle(x, y, 11, colour)
        self.text(x, y, str(label), SMALL, fill=WHITE, bold=True, fit=22)

    def line(self, *points, colour=INK, width=1.5, dash=None) -> None:
        """Draw straight lines from point to point."""
        self._path("M" + " L".join(f"{_num(x)} {_num(y)}" for x, y in points), colour, width, dash)

    def arrow(self, *points, colour=INK, width=2, dash=None, both=False, head=8) -> None:
        """Draw straight lines from point to point, with a head at the end (or at both)."""
        points = list(points)
        tips = [(points[-1], points[-2])]
        points[-1] = _towards(points[-1], points[-2], 0.8 * head)
        if both:
            tips.append((points[0], points[1]))
            points[0] = _towards(points[0], points[1], 0.8 * head)
        self.line(*points, colour=colour, width=width, dash=dash)
        for tip, before in tips:
            self._head(tip, before, colour, head)

    def curve(self, start, control1, control2, end, colour=INK, width=2, dash=None, head=8) -> None:
        """Draw a cubic curve with a head at its end."""
        stop = _towards(end, control2, 0.8 * head)
        shifted = (control2[0] + stop[0] - end[0], control2[1] + stop[1] - end[1])
        points = [f"{_num(x)} {_num(y)}" for x, y in (start, control1, shifted, stop)]
        self._path(f"M{points[0]} C{' '.join(points[1:])}", colour, width, dash)
        self._head(end, control2, colour, head)

    def _path(self, d, colour, width, dash) -> None:
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        self._marks.append(
            f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="{_num(width)}"{extra}/>'
        )

    def _head(self, tip, before, colour, size) -> None:
        angle = atan2(tip[1] - before[1], tip[0] - before[0])
        wings = [
            (tip[0] - size * cos(angle + turn), tip[1] - size * sin(angle + turn))
            for turn in (-0.45, 0.45)
        ]
        points = " ".join(f"{_num(x)},{_num(y)}" for x, y in (tip, *wings))
        self._marks.append(f'<polygon points="{points}" fill="{colour}"/>')


def _towards(start, end, distance):
    """Return the point `distance` away from `start` on the way to `end`."""
    length = hypot(end[0] - start[0], end[1] - start[1])
    return tuple(s + (e - s) * distance / length for s, e in zip(start, end, strict=True))
