"""Layout of a timeline: positions of lanes, boxes and ticks, in pixels."""

import math
from collections import Counter
from dataclasses import dataclass

from simgpu.timeline.kinds import kind_of, looks_of
from simgpu.timeline.lanes import choose, lane_of
from simgpu.units import time_unit

PLOT, LABELS = 560, 120  # width of the scrolling part, minimum width of the lane names, pixels
CHARACTER = 6.4  # upper estimate of the width of one character, pixels
USUAL_LABEL, LONGEST_LABEL = 19, 34  # characters
ROW, GAP, TOP, AXIS = 24, 6, 6, 24  # heights, pixels
NARROW = 4.0  # neighbours of one kind are merged if both are narrower, pixels
MAX_BOXES = 240  # about 70 kB of text
BOXES_IN_ROW = 15  # on average, if many rows need more than MAX_BOXES
MAX_ROWS = 8  # per lane
MAX_HEIGHT = 48  # rows of all lanes, at most 1,500 pixels


@dataclass
class Box:
    """One or several spans that are drawn as one rectangle; x in pixels."""

    left: float
    right: float
    spans: list
    kind: str | None  # None: of several kinds
    narrow: bool  # its spans are too narrow to distinguish


@dataclass
class Figure:
    """A figure with all positions: lanes are ``(label, y, [row, ...])`` with rows of boxes.

    The axis starts at `start`, in seconds of the clock; `hints` are the tooltips of the lanes'
    labels; `left_out` names the lanes for which there is no room.
    """

    lanes: list
    label_width: int
    hints: list
    left_out: list
    looks: dict
    ticks: list
    start: float
    unit: str
    height: int
    joined: bool
    title: str
    simulated: bool


def layout(timeline):
    """Lay out a timeline: choose lanes, rows, boxes, unit and ticks."""
    length = (timeline.end - timeline.start) or 1e-9
    scale = PLOT / length
    spans = timeline.lanes()
    stacks = {lane: _stack(spans[lane]) for lane in spans}
    drawn = choose(spans, {lane: len(rows) for lane, rows in stacks.items()}, MAX_HEIGHT)
    lanes, shown = [(_label(lane), stacks[lane]) for lane in drawn], set(drawn)
    room = max(MAX_BOXES, BOXES_IN_ROW * sum(len(rows) for _, rows in lanes))
    limit = 1.0
    while True:
        placed = [
            (label, [_join(row, timeline.start, scale, limit) for row in rows])
            for label, rows in lanes
        ]
        boxes = [box for _, rows in placed for row in rows for box in row]
        if len(boxes) <= room or limit > 2 * PLOT:
            break
        limit *= 2
    y, result = TOP, []
    for label, rows in placed:
        result.append((label, y, rows))
        y += len(rows) * ROW + GAP
    unit, per_second = time_unit(timeline.end - timeline.start)
    return Figure(
        lanes=result,
        label_width=_label_width([label for label, _ in lanes]),
        hints=[timeline.models.get(device, "") for device, _ in drawn],
        left_out=[_label(lane) for lane in spans if lane not in shown],
        looks=looks_of(s for s in timeline.spans if (s.device, lane_of(s)) in shown),
        ticks=_ticks(length * per_second),
        start=timeline.start,
        unit=unit,
        height=y + AXIS,
        joined=any(box.kind is None for box in boxes),
        title=repr(timeline).splitlines()[0],
        simulated=timeline.simulated,
    )


def _label(lane):
    label = " ".join(lane)
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _label_width(labels):
    longest = max(map(len, labels))
    return LABELS if longest <= USUAL_LABEL else math.ceil(longest * CHARACTER) + 6


def _stack(spans):
    """Put spans that overlap in time on different rows; `spans` are sorted by start."""
    ends, rows = [], []
    for span in spans:
        # An overlap of the size of a rounding error does not count.
        free = (i for i, end in enumerate(ends) if span.start >= end - 1e-12)
        row = next(free, min(len(rows), MAX_ROWS - 1))
        if row == len(rows):
            rows.append([])
            ends.append(0.0)
        rows[row].append(span)
        ends[row] = max(ends[row], span.end)
    return rows


def _join(row, start, scale, limit):
    """Return the boxes of one row of spans.

    Neighbours too narrow to draw share a box: always if they are of one kind, otherwise as long as
    the box is at most `limit` pixels wide.
    """
    boxes = []
    for span in row:
        left = min(max((span.start - start) * scale, 0.0), PLOT)
        right = min(max((span.end - start) * scale, left), PLOT)
        box, kind, narrow = boxes[-1] if boxes else None, kind_of(span), right - left < NARROW
        if box and (
            (narrow and box.narrow and kind == box.kind and left - box.right < 1)
            or right - box.left <= limit
        ):
            box.right = max(box.right, right)
            box.spans.append(span)
            box.kind = kind if kind == box.kind else None
        else:
            boxes.append(Box(left, right, [span], kind, narrow))
    return boxes


def _ticks(length):
    """Return ``(x, label)`` for 4 to 10 round values on an axis from 0 to `length` units."""
    power = 10 ** math.floor(math.log10(length / 4))
    step = next((m * power for m in (5, 2) if length / (m * power) >= 4), power)
    decimals = max(0, -math.floor(math.log10(step)))
    ticks = []
    for i in range(12):
        value = i * step
        x = value / length * PLOT
        if x <= PLOT + 0.01:
            ticks.append((x, f"{value:.{decimals}f}"))
    return ticks


def kind_of_box(box):
    """Return the kind that took most of a box's time."""
    if box.kind:
        return box.kind
    seconds = Counter()
    for span in box.spans:
        seconds[kind_of(span)] += span.duration
    return max(sorted(seconds), key=seconds.get)
