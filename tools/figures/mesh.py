"""A mesh of sixteen ranks in two nodes, and the groups of rank 0."""

from __future__ import annotations

from simgpu.units import MUTED
from tools.figures.canvas import GPU, HOST, LARGE, WIDTH, Canvas

SIDE, GAP, LEFT, TOP = 40, 8, 12, 40
NODE_H = 2 * SIDE + GAP + 46
AXES = {"tensor": 1, "context": 2, "shard": 4, "pipeline": 8}  # what is added to a rank
COLOURS = dict(zip(AXES, GPU, strict=True))


def mesh() -> Canvas:
    """Draw two nodes of eight ranks; marks join rank 0 with its partner on each axis."""
    canvas = Canvas(
        WIDTH,
        2 * NODE_H + 84,
        "A mesh of 2 x 2 x 2 x 2 ranks",
        "Ranks 0 to 7 in node 0 are the first stage of the pipeline, ranks 8 to 15 in node 1 the "
        "second. In a node, two rows of four are shards; in a row, two pairs are contexts; in a "
        "pair, two neighbours share tensors. Rank 0 shares tensors with rank 1, a context with "
        "rank 2, shards with rank 4, and the pipeline with rank 8.",
    )
    for node in range(2):
        top = 10 + node * (NODE_H + 14)
        canvas.panel(LEFT - 4, top, 4 * SIDE + 5 * GAP + 24, NODE_H)
        canvas.text(LEFT + 6, top + 18, f"node {node}: stage {node}", LARGE, anchor="start")
        for local in range(8):
            _rank(canvas, 8 * node + local, *_at(local, top))
    for row, (axis, step) in enumerate(AXES.items()):
        y = 40 + 34 * row
        canvas.box(250, y, 26, 22, str(step), COLOURS[axis], 0.5)
        canvas.text(284, y + 16, f"{axis}: ranks 0 and {step}", anchor="start")
    canvas.text(250, 200, "The last axis is the nearest:", anchor="start", fill=MUTED)
    canvas.text(250, 220, "neighbours share tensors.", anchor="start", fill=MUTED)
    return canvas


def _at(local, top):
    column, row = local % 4, local // 4
    return LEFT + 8 + column * (SIDE + GAP) + 8 * (column // 2), top + 30 + row * (SIDE + GAP)


def _rank(canvas, rank, x, y):
    axis = next((name for name, step in AXES.items() if step == rank), None)
    colour, share = (COLOURS[axis], 0.5) if axis else (HOST, 0.3 if rank == 0 else 0.05)
    canvas.box(x, y, SIDE, SIDE, str(rank), colour, share, bold=rank == 0)
