"""Charts of measurements: logarithmic axes, in one style.

A file depends on the numbers alone, so that a stored chart can be compared exactly: nothing is
placed by the size of letters, which differs between versions of Matplotlib. Letters stay letters,
on white: readable at any size, in light and in dark pages.
"""

import io
import math

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator

from simgpu.units import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, RULE, VERMILION, quantity

WIDTH = 5.5  # inches
FONT = 12.5  # points: still 11 px where a telephone shows a chart 360 px wide
LINE = 0.24  # height of a line of text, inches
LETTERS = 42  # that fit into the width
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILION)
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "d2lmini",
    "text.parse_math": False,  # names of machines and cases are no formulas
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": FONT,
    "text.color": INK,
    "grid.color": RULE,
    "axes.axisbelow": True,
}


def svg(figure, title):
    """Return the text of a chart's file."""
    text = io.StringIO()
    about = {"Title": title, "Creator": None, "Date": None, "Format": None, "Type": None}
    with mpl.rc_context(SETTINGS):
        figure.savefig(text, format="svg", metadata=about)
    return text.getvalue()


def new_axes(height, left, below, above=0.1, right=0.3):
    """Return axes of such a height and margins, inches, in a new figure."""
    total, width = above + height + below, WIDTH - left - right
    place = (left / WIDTH, below / total, width / WIDTH, height / total)
    axes = Figure(figsize=(WIDTH, total)).add_axes(place)
    axes.spines[:].set_visible(False)
    axes.spines["bottom"].set(visible=True, color=RULE)
    return axes


def room_around(values):
    """Return the limits of a logarithmic axis that has room around the values."""
    low, high = min(values), max(values)
    margin = max((high / low) ** 0.06, 1.1)
    return low / margin, high * margin


def ticks_within(limits):
    """Return round values within the limits of a logarithmic axis, at least two and not many."""
    low, high = limits
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if high < 1000 * low else (1,)
    found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    found = [tick for tick in found if low <= tick <= high]
    if len(found) < 2:
        found = [tick for tick in AutoLocator().tick_values(low, high) if low <= tick <= high]
    return found[:: -(-len(found) // 9)]


def mark_x(axes, ticks, write, title):
    """Write the ticks of the x-axis and its title."""
    axes.set_xticks(ticks, [])
    axes.minorticks_off()
    below = {"ha": "center", "color": MUTED}
    for tick in ticks:
        write_at(axes, write(tick), (tick, 0), ("data", "axes fraction"), (0, -1.5 * FONT), **below)
    write_at(axes, title, (0.5, 0), "axes fraction", (0, -2.8 * FONT), **below)


def mark_y(axes, unit):
    """Write the ticks of the y-axis, which is logarithmic, and draw their grid."""
    axes.set_yticks(ticks_within(axes.get_ylim()), [])
    axes.grid(axis="y")
    axes.tick_params(length=0)
    for y in axes.get_yticks():
        text, below = quantity(y, unit), (-6, -0.35 * FONT)
        write_at(axes, text, (0, y), ("axes fraction", "data"), below, ha="right", color=MUTED)


def write_at(axes, text, place, coordinates, offset=(0, 0), **style):
    """Write a line whose left end (or `ha`) lies on the base line `offset` points from `place`."""
    how = {"xycoords": coordinates, "textcoords": "offset points", "va": "baseline"}
    axes.annotate(text, place, offset, annotation_clip=False, **how, **style)
