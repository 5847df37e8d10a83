"""Processes: two machines and the ranks on them, and eight ranks that add up in three rounds."""

from __future__ import annotations

from simgpu.units import INK, MUTED
from tools.figures.canvas import GPU, HOST, LINK, LINK_TEXT, WIDTH, Canvas

LEFT, PANEL_W, BOX_W = (14, 226), 200, 86


def ddp_processes() -> Canvas:
    """Draw two machines with two processes each."""
    canvas = Canvas(
        WIDTH,
        312,
        "One process per GPU, on two machines",
        "On each of two machines torchrun starts two processes. Their ranks are 0 and 1 on the "
        "first machine, 2 and 3 on the second; their local ranks are 0 and 1 on both. Each process "
        "uses the GPU with the number of its local rank. An allreduce joins all four GPUs.",
    )
    for machine, left in enumerate(LEFT):
        canvas.panel(left, 12, PANEL_W, 228, ("first machine", "second machine")[machine], HOST)
        canvas.box(left + 42, 46, PANEL_W - 84, 30, "torchrun", HOST)
        for local in (0, 1):
            x, rank = left + 10 + 94 * local, 2 * machine + local
            middle = x + BOX_W / 2
            canvas.arrow((middle, 77), (middle, 104), colour=MUTED)
            canvas.box(x, 106, BOX_W, 58, "", GPU[rank])
            canvas.text(middle, 124, f"rank {rank}", bold=True, fit=BOX_W - 4)
            canvas.text(middle, 146, f"local rank {local}", fit=BOX_W)
            canvas.arrow((middle, 165), (middle, 194), colour=GPU[rank])
            canvas.box(x, 196, BOX_W, 32, f"GPU {local}", GPU[rank], 0.3)
            canvas.arrow((middle, 229), (middle, 266), colour=LINK, both=True)
    first, last = LEFT[0] + 10 + BOX_W / 2, LEFT[1] + 104 + BOX_W / 2
    canvas.line((first, 267), (last, 267), colour=LINK, width=3)
    canvas.text(WIDTH / 2, 290, "allreduce of gradients, world size 4", fill=LINK_TEXT, fit=300)
    return canvas


def three_rounds() -> Canvas:
    """Draw eight ranks at the corners of a cube, whose edges are rounds of a sum."""
    canvas = Canvas(
        WIDTH,
        300,
        "A sum over eight ranks in three rounds",
        "Eight ranks at the corners of a cube. Horizontal edges join the two ranks of a node: 0 "
        "and 1, 2 and 3, 4 and 5, 6 and 7; they are the round node. Vertical edges join ranks "
        "whose numbers differ by two: 0 and 2, 1 and 3, 4 and 6, 5 and 7; they are the round "
        "near. Slanting edges join ranks whose numbers differ by four: 0 and 4, 1 and 5, 2 and 6, "
        "3 and 7; they are the round far.",
    )
    middles = [_corner(rank) for rank in range(8)]
    for bit, colour in ((4, GPU[2]), (2, LINK), (1, HOST)):
        for rank in range(8):
            if not rank & bit:
                ends = middles[rank], middles[rank | bit]
                canvas.line(*ends, colour=colour, width=3, dash="7 4" if bit == 4 else None)
    for rank, (x, y) in enumerate(middles):
        canvas.box(x - 17, y - 14, 34, 28, str(rank), GPU[rank // 2], 0.3, bold=True)
    for (x, y), label, colour in (
        ((157, 268), "node", HOST), ((36, 165), "near", LINK_TEXT), ((330, 232), "far", INK),
    ):  # fmt: skip
        canvas.text(x, y, label, fill=colour, bold=True, fit=50)
    return canvas


def _corner(rank):
    """Return the middle of a rank's box: one axis of the cube for each bit of its number."""
    right, up, back = rank & 1, rank >> 1 & 1, rank >> 2
    return 70 + 175 * right + 125 * back, 240 - 150 * up - 55 * back
