"""Processes: who starts them, their ranks, which of them form a mesh, and what they add up."""

from __future__ import annotations

from simgpu.units import INK, MUTED
from tools.figures.canvas import GPU, HOST, LARGE, LINK, LINK_TEXT, WIDTH, Canvas

LEFT, PANEL_W, BOX_W = (14, 226), 200, 86
SIDE, GAP, MESH_LEFT = 40, 8, 12
NODE_H = 2 * SIDE + GAP + 46
AXES = {"tensor": 1, "context": 2, "shard": 4, "pipeline": 8}  # what is added to a rank
COLOURS = dict(zip(AXES, GPU, strict=True))


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


def mesh() -> Canvas:
    """Draw two nodes of eight ranks; marks join rank 0 with its partner on each axis."""
    canvas = Canvas(
        WIDTH,
        2 * NODE_H + 34,
        "A mesh of 2 x 2 x 2 x 2 ranks",
        "Ranks 0 to 7 in node 0 are the first stage of the pipeline, ranks 8 to 15 in node 1 the "
        "second. In a node, two rows of four are shards; in a row, two pairs are contexts; in a "
        "pair, two neighbours share tensors. Rank 0 shares tensors with rank 1, a context with "
        "rank 2, shards with rank 4, and the pipeline with rank 8.",
    )
    for node in range(2):
        top = 10 + node * (NODE_H + 14)
        canvas.panel(MESH_LEFT - 4, top, 4 * SIDE + 5 * GAP + 24, NODE_H)
        canvas.text(MESH_LEFT + 6, top + 18, f"node {node}: stage {node}", LARGE, anchor="start")
        for local in range(8):
            _mesh_rank(canvas, 8 * node + local, *_mesh_at(local, top))
    for row, (axis, step) in enumerate(AXES.items()):
        y = 40 + 34 * row
        canvas.box(250, y, 26, 22, str(step), COLOURS[axis], 0.5)
        canvas.text(284, y + 11, f"{axis}: 0 and {step}", anchor="start", fit=150)
    for row, line in enumerate(
        ("The last axis is", "the nearest one:", "neighbours share", "tensors.")
    ):
        canvas.text(250, 196 + 22 * row, line, anchor="start", fill=MUTED)
    return canvas


def _mesh_at(local, top):
    column, row = local % 4, local // 4
    return MESH_LEFT + 8 + column * (SIDE + GAP) + 8 * (column // 2), top + 30 + row * (SIDE + GAP)


def _mesh_rank(canvas, rank, x, y):
    axis = next((name for name, step in AXES.items() if step == rank), None)
    colour, share = (COLOURS[axis], 0.5) if axis else (HOST, 0.3 if rank == 0 else 0.05)
    canvas.box(x, y, SIDE, SIDE, str(rank), colour, share, bold=rank == 0)


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
