"""Plots of records, in the book's palette: ratios as dots, series as lines; logarithmic axes."""

import math
import textwrap

from benchmarks.report import number, quantity
from tools.figures.canvas import BLUE, GREEN, INK, LINK, MUTED, ORANGE, PURPLE, RULE, WIDTH
from tools.figures.canvas import Canvas as _Canvas

LEFT, RIGHT = 24, 416  # of the ratios' axis
LINE = 18  # height of a line of text
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, LINK)
_LETTERS = 44  # that fit into the width
_TICKS = [m * 10**e for e in range(-9, 13) for m in (1, 2, 5)]


def ratios(rows, title):
    """Draw how many times better than its peer each row is, with the range over the rounds.

    Parameters
    ----------
    rows : list of dict
        Rows of a record, each with a peer.
    title : str
        Of the picture, for readers who cannot see it.

    Returns
    -------
    str
        SVG.
    """
    labels = [_label(row) for row in rows]
    height = sum(LINE * len(lines) + 26 for lines in labels) + 64
    points = [_ratio_points(row) for row in rows]
    goals = [row["goal"] for row in rows if row["goal"]]
    low, high = _limits([*(p for found in points for p in found), *goals, 1])
    canvas = _Canvas(WIDTH, height, title, _describe_ratios(rows))
    axis = _Axis(low, high, LEFT, RIGHT)
    bottom = height - 50
    for tick in axis.ticks(6):
        x = axis(tick)
        canvas.line((x, 12), (x, bottom), colour=INK if tick == 1 else RULE, width=1)
        canvas.text(x, bottom + 12, f"{number(tick)}x", fill=MUTED)
    canvas.text(WIDTH / 2, bottom + 34, "times better than the peer; bar: goal", fill=MUTED)
    y = 22
    for row, lines, (worst, middle, best) in zip(rows, labels, points, strict=True):
        for text in lines:
            canvas.rect(LEFT - 6, y - 9, 9.2 * len(text), LINE, "#FFFFFF", rx=0)  # over the grid
            canvas.text(LEFT - 4, y, text, anchor="start")
            y += LINE
        canvas.line((axis(worst), y), (axis(best), y), colour=BLUE, width=2)
        canvas.circle(axis(middle), y, 5, BLUE)
        if row["goal"]:
            canvas.line(
                (axis(row["goal"]), y - 8), (axis(row["goal"]), y + 8), colour=LINK, width=3
            )
        y += 26
    return canvas.svg()


def _label(row):
    against = f", against {row['peer']['label']}" if row["peer"]["label"] not in row["case"] else ""
    return textwrap.wrap(f"{row['benchmark']}: {row['case']}{against}", _LETTERS)


def _ratio_points(row):
    """Return the smallest, the median and the largest ratio of the rounds."""
    pairs = zip(row["ours"]["samples"], row["peer"]["samples"], strict=True)
    found = [a / b if row["higher_is_better"] else b / a for a, b in pairs]
    return min(found), row["ratio"], max(found)


def _describe_ratios(rows):
    parts = [f"{row['benchmark']}, {row['case']}: {number(row['ratio'])} times" for row in rows]
    return "Ratios to the peer, on a logarithmic axis. " + "; ".join(parts) + "."


def lines(rows, title, x_name, x_unit):
    """Draw rows that have an `x` as lines, one for each label of ours and peers.

    Parameters
    ----------
    rows : list of dict
        Rows of one benchmark and plot.
    title, x_name : str
        Of the picture and of its axis.
    x_unit : str
        "B" writes sizes with their units, "" counts.

    Returns
    -------
    str
        SVG.
    """
    series = _series(rows)
    unit = rows[0]["unit"]
    xs = sorted({x for points in series.values() for x in points})
    ys = [side[key] for points in series.values() for side in points.values()
          for key in ("low", "high")]  # fmt: skip
    legend = LINE * len(series)
    top, bottom = 30, 270
    canvas = _Canvas(WIDTH, bottom + 52 + legend, title, _describe_lines(series, unit, x_name))
    across, up = _Axis(xs[0], xs[-1], 88, 404), _Axis(*_limits(ys), bottom, top)
    for tick in up.ticks(7):
        canvas.line((80, up(tick)), (RIGHT, up(tick)), colour=RULE, width=1)
        canvas.text(74, up(tick), quantity(tick, unit), anchor="end", fill=MUTED)
    for x in xs if len(xs) < 6 else xs[::2]:
        canvas.text(across(x), bottom + 16, _size(x) if x_unit == "B" else number(x), fill=MUTED)
    canvas.text((80 + RIGHT) / 2, bottom + 36, x_name, fill=MUTED)
    for i, (label, points) in enumerate(series.items()):
        colour, dash = COLOURS[i % len(COLOURS)], (None, "6 3", "2 3")[i % 3]
        place = [(across(x), up(side["median"])) for x, side in sorted(points.items())]
        if len(place) > 1:
            canvas.line(*place, colour=colour, width=2, dash=dash)
        for x, side in points.items():
            spread = [(across(x), up(side[key])) for key in ("low", "high")]
            canvas.line(*spread, colour=colour, width=2)
            canvas.circle(across(x), up(side["median"]), 4, colour)
        y = bottom + 44 + LINE * (i + 0.5)
        canvas.line((88, y), (124, y), colour=colour, width=2, dash=dash)
        canvas.text(132, y, label, anchor="start")
    return canvas.svg()


def _series(rows):
    """Return ``{label: {x: side}}``; a peer that several rows share is one series."""
    found = {}
    for row in rows:
        for side in filter(None, (row["ours"], row["peer"])):
            found.setdefault(side["label"], {})[row["x"]] = side
    return found


def _describe_lines(series, unit, x_name):
    parts = []
    for label, points in series.items():
        values = [f"{number(x)}: {quantity(s['median'], unit)}" for x, s in sorted(points.items())]
        parts.append(f"{label}, " + ", ".join(values))
    return f"Medians by {x_name}, logarithmic axes. " + "; ".join(parts) + "."


def _size(num_bytes):
    if num_bytes >= 2**20:
        return f"{number(num_bytes / 2**20)} MiB"
    return f"{number(num_bytes / 2**10)} KiB" if num_bytes >= 2**10 else f"{number(num_bytes)} B"


def _limits(values):
    """Return the range of an axis that has room around the values."""
    low, high = min(values), max(values)
    margin = max((high / low) ** 0.06, 1.1)
    return low / margin, high * margin


class _Axis:
    """A logarithmic axis from `low` at `start` to `high` at `end`, units of the canvas."""

    def __init__(self, low, high, start, end):
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value):
        if self.high == self.low:
            return (self.start + self.end) / 2
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most):
        """Return round values within the axis, `most` at most where that is possible."""
        found = [t for t in _TICKS if self.low <= t <= self.high]
        if len(found) > most:
            found = [t for t in found if round(math.log10(t), 6).is_integer()]
        return found[:: -(-len(found) // most) or 1]
