"""Processes: who is started by ``torchrun`` on two machines, and how its ranks are numbered."""

from __future__ import annotations

from simgpu.units import MUTED
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
