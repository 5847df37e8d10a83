"""The figures of the page: bandwidths over size, and predicted times over measured ones."""

import textwrap
from dataclasses import dataclass

import matplotlib as mpl

from benchmarks.charts import (
    COLOURS,
    FONT,
    LETTERS,
    LINE,
    SETTINGS,
    WIDTH,
    mark_x,
    mark_y,
    new_axes,
    room_around,
    ticks_within,
    write_at,
)
from simgpu.units import MUTED, RULE, WHITE, quantity, size

MARKERS = ("o", "s", "^", "D", "v")
LEFT, RIGHT = 1.0, 0.3  # inches


@dataclass(frozen=True)
class Curve:
    """What is predicted for one system, and what was published: ``{bytes: bytes/s}`` each."""

    label: str
    predicted: dict
    published: dict


@mpl.rc_context(SETTINGS)
def bandwidths(curves):
    """Draw predicted bus bandwidths over the size as lines, published ones as points."""
    xs = sorted({x for curve in curves for x in (*curve.predicted, *curve.published)})
    ys = [y for c in curves for y in (*c.predicted.values(), *c.published.values())]
    axes = new_axes(3, left=LEFT, below=(4 + len(curves)) * LINE, right=RIGHT)
    axes.set(xscale="log", yscale="log", xlim=room_around(xs), ylim=room_around(ys))
    for i, curve in enumerate(curves):
        line = {"color": COLOURS[i % 5], "linewidth": 2}
        places = sorted(curve.predicted)
        axes.plot(places, [curve.predicted[x] for x in places], **line)
        dots = {"color": COLOURS[i % 5], "marker": MARKERS[i % 5], "markeredgecolor": WHITE}
        axes.plot(*zip(*sorted(curve.published.items()), strict=True), linestyle="", **dots)
        _key(axes, i, 3, "", line, (0, 0.1))
        _key(axes, i, 3, curve.label, dots | {"linestyle": ""}, (0.05,))
    _key(axes, len(curves), 3, "line: simulated; points: published", None, ())
    _size_ticks(axes, xs)
    mark_y(axes, "B/s")
    return axes.figure


def _size_ticks(axes, xs):
    steps = [x for i, x in enumerate(xs) if i % -(-len(xs) // 5) == 0]
    mark_x(axes, steps, size, "size of the buffer")


@mpl.rc_context(SETTINGS)
def scatter(groups):
    """Draw predicted over measured times; `groups` is ``{label: predictions}``, a colour each."""
    values = [t for rows in groups.values() for p in rows for t in (p.measured, p.predicted)]
    side = WIDTH - LEFT - RIGHT  # a square
    axes = new_axes(side, left=LEFT, below=(4 + len(groups)) * LINE, right=RIGHT)
    limits = room_around(values)
    axes.set(xscale="log", yscale="log", xlim=limits, ylim=limits)
    for factor, style in ((1, "-"), (0.75, ":"), (1.25, ":")):
        axes.plot(limits, [factor * x for x in limits], color=MUTED, linestyle=style, linewidth=1)
    for i, (label, rows) in enumerate(groups.items()):
        dots = {"color": COLOURS[i % 5], "marker": MARKERS[i % 5], "linestyle": ""}
        dots |= {"markersize": 5, "markeredgewidth": 0, "alpha": 0.7}
        axes.plot([p.measured for p in rows], [p.predicted for p in rows], **dots)
        _key(axes, i, side, label, dots, (0.05,))
    _key(axes, len(groups), side, "line: predicted = measured; dots: 25 % off", None, ())
    ticks = ticks_within(limits)
    mark_x(axes, ticks, lambda t: quantity(t, "s"), "measured (published) seconds of a step")
    mark_y(axes, "s")
    axes.grid(axis="x", color=RULE)
    write_at(axes, "predicted (simulated)", (0.03, 0.94), "axes fraction", color=MUTED)
    return axes.figure


def _key(axes, place, height, label, style, xs):
    """Write a line of the key, mark and words, below axes of a height in inches."""
    y = -(3.2 + place) * LINE / height  # in heights of the axes
    if style:
        axes.plot(xs, [y] * len(xs), transform=axes.transAxes, clip_on=False, **style)
    left = 0.13 if style else -0.2
    words = textwrap.shorten(label, LETTERS, placeholder=" …")
    write_at(axes, words, (left, y), "axes fraction", (0, -0.35 * FONT))
