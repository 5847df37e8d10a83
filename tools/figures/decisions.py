"""Decisions: what to try, and in which order, where a model does not fit or training is slow."""

from __future__ import annotations

from simgpu.units import MUTED
from tools.canvas import HOST, LARGE, WIDTH, Canvas

LEFT, COLUMN_W, ROW_H, GAP = (10, 154, 298), 132, 46, 14
FIRST_ROW = 222
COLUMNS = {
    "States\ndo not fit": (
        "shard them:\nZeRO-1, ZeRO-2",
        "ZeRO-3, which is\nfully_shard",
        "more GPUs",
        "offload to\nthe host",
    ),
    "Activations\ndo not fit": (
        "bfloat16,\nfused attention",
        "smaller parts,\naccumulated",
        "recompute\nblocks",
        "split a layer\nover GPUs",
    ),
    "It fits,\nbut is slow": (
        "timeline: what\nis exposed?",
        "more tokens\nper GPU",
        "keep weights\nafter forward",
        "HSDP: gather\ninside a node",
    ),
}


def what_to_try() -> Canvas:
    """Draw two questions, and a column of four remedies under each of three answers."""
    steps = "; ".join(
        f"{name}: first {', then '.join(remedies)}" for name, remedies in COLUMNS.items()
    ).replace("\n", " ")
    canvas = Canvas(
        WIDTH,
        FIRST_ROW + 4 * (ROW_H + GAP) - GAP + 4,
        "Slow, or does not fit: what to try, in which order",
        "First question: does a step fit into memory? If not, second question: do 16 bytes per "
        f"parameter fit? The answers lead to three columns. {steps}.",
    )
    middles = [left + COLUMN_W / 2 for left in LEFT]
    canvas.box(LEFT[1] - 10, 10, COLUMN_W + 20, 40, "Does a step fit?", HOST, 0.3, bold=True)
    canvas.box(LEFT[0] + 20, 84, 236, 40, "Do 16 bytes per parameter?", HOST, 0.3, bold=True)
    _answer(canvas, "no", (middles[1] - 40, 51), (middles[1] - 40, 83))
    canvas.arrow((LEFT[1] + COLUMN_W + 11, 30), (middles[2], 30), (middles[2], 155), colour=MUTED)
    canvas.text(middles[2] + 6, 60, "yes", anchor="start", fill=MUTED)
    _answer(canvas, "no", (middles[0], 125), (middles[0], 155))
    _answer(canvas, "yes", (middles[1], 125), (middles[1], 155))
    for left, (heading, remedies) in zip(LEFT, COLUMNS.items(), strict=True):
        _column(canvas, left, heading, remedies)
    return canvas


def _answer(canvas, word, start, end):
    canvas.arrow(start, end, colour=MUTED)
    canvas.text(start[0] + 6, (start[1] + end[1]) / 2 - 2, word, anchor="start", fill=MUTED)


def _column(canvas, left, heading, remedies):
    for i, line in enumerate(heading.split("\n")):
        middle = left + COLUMN_W / 2
        canvas.text(middle, 172 + 20 * i, line, LARGE, bold=True, fit=COLUMN_W)
    for row, remedy in enumerate(remedies):
        y = FIRST_ROW - 8 + row * (ROW_H + GAP)
        if row:
            x = left + COLUMN_W / 2
            canvas.arrow((x, y - GAP + 1), (x, y - 1), colour=MUTED, head=6)
        canvas.box(left, y, COLUMN_W, ROW_H, remedy, HOST, 0.08)
