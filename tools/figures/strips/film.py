"""A film: marks that live for some steps, and a sentence for each step."""

from __future__ import annotations

from dataclasses import dataclass, field

from simgpu.units import INK, MUTED, PALE, RULE
from tools.canvas import GPU, HOST, SMALL, WIDTH, Canvas, tint

# Marks name a colour by its place in this list.
COLOURS = (*GPU, INK, MUTED, RULE, "#F3F4F6", tint(HOST, 0.45), *(tint(c, 0.35) for c in GPU), PALE)
TEXT, QUIET, FRAME, EMPTY, OWN, PASSED, GREY = 4, 5, 6, 7, 8, 9, 13
FOREVER = 999


@dataclass
class Film:
    """What a strip shows, step by step.

    Attributes
    ----------
    height : int
        Of the picture, which is `WIDTH` wide.
    says : list of str
        A sentence for each step: what happens, and what it leaves.
    marks : list of list
        ``[x, y, width, height, colour, text, first step, last step]``. Without a width it is a
        text alone, whose height is 0 in the middle, 1 where it begins and 2 where it ends.
    """

    height: int
    says: list[str] = field(default_factory=list)
    marks: list[list] = field(default_factory=list)

    def box(self, x, y, w, h, colour, text="", since=0, until=FOREVER):
        """Add a filled box, with a few characters in it."""
        made = [round(v, 1) for v in (x, y, w, h)]
        self.marks.append([*made, colour, str(text), since, until])

    def text(self, x, y, words, anchor="middle", colour=TEXT, since=0, until=FOREVER):
        """Add a line of text, vertically centred at y."""
        place = ("middle", "start", "end").index(anchor)
        self.marks.append([round(x, 1), round(y, 1), 0, place, colour, words, since, until])

    def at(self, step):
        """Return the marks that are seen at a step."""
        step = step % len(self.says)
        return [mark for mark in self.marks if mark[6] <= step <= mark[7]]


def runs(values):
    """Yield the first and last place of each run of equal values, and the value."""
    start = 0
    for i in range(1, len(values) + 1):
        if i == len(values) or values[i] != values[start]:
            yield start, i - 1, values[start]
            start = i


def drawn(film: Film, step: int, title: str) -> Canvas:
    """Draw one step of a film."""
    canvas = Canvas(WIDTH, film.height, title, f"{title}. {film.says[step % len(film.says)]}")
    for x, y, w, h, colour, text, _, _ in film.at(step):
        if not w:
            canvas.text(x, y, text, anchor=("middle", "start", "end")[h], fill=COLOURS[colour])
            continue
        canvas.rect(x, y, w, h, COLOURS[colour], rx=0)
        if text:
            canvas.text(x + w / 2, y + h / 2, text, SMALL)
    return canvas
