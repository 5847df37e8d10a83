"""Attention by Ulysses: an all-to-all exchanges some tokens' heads for some heads' tokens."""

from __future__ import annotations

from simgpu.units import INK, MUTED
from tools.canvas import GPU, LINK, LINK_TEXT, WIDTH, Canvas

RANKS, SIDE, PITCH, TOP = 4, 34, 37, 70
LEFT = (30, 286)


def heads_for_tokens() -> Canvas:
    """Draw which rank has which head of which tokens, outside attention and in it."""
    canvas = Canvas(
        WIDTH,
        262,
        "An all-to-all exchanges tokens for heads",
        "Two squares of four groups of tokens by four heads, on four ranks. On the left, outside "
        "attention, each row is of one colour: rank r has all heads of the tokens t r. An arrow "
        "in both directions, an all-to-all, leads to the right, where each column is of one "
        "colour: in attention, rank r has all tokens of the head h r.",
    )
    for side, heading in enumerate(("outside attention", "in attention")):
        middle = LEFT[side] + (RANKS * PITCH - PITCH + SIDE) / 2
        canvas.text(middle, 16, heading, fill=INK, bold=True, fit=150)
        for i in range(RANKS):
            centre = SIDE / 2 + i * PITCH
            canvas.text(LEFT[side] + centre, TOP - 16, f"*h*_{{{i}}}", fill=MUTED, fit=SIDE)
            canvas.text(LEFT[side] - 14, TOP + centre, f"*t*_{{{i}}}", fill=MUTED, fit=26)
            for j in range(RANKS):
                rank = (i, j)[side]
                place = LEFT[side] + j * PITCH, TOP + i * PITCH
                canvas.box(*place, SIDE, SIDE, str(rank), GPU[rank], 0.3)
    y = TOP + (RANKS * PITCH - PITCH + SIDE) / 2
    ends = (LEFT[0] + RANKS * PITCH + 8, y), (LEFT[1] - 36, y)
    canvas.arrow(*ends, colour=LINK, width=2.5, both=True, head=10)
    canvas.text(sum(x for x, _ in ends) / 2, y - 20, "all-to-all", fill=LINK_TEXT, fit=74)
    canvas.text(WIDTH / 2, 244, "number and colour: the rank that has it", fill=MUTED, fit=420)
    return canvas
