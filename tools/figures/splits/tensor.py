"""An MLP whose first weight is split by columns and whose second one is split by rows."""

from __future__ import annotations

from simgpu.units import INK
from tools.canvas import GPU, HOST, LINK, LINK_TEXT, WIDTH, Canvas

LEFT, PANEL_W, MIDDLE = (8, 228), 204, 70  # MIDDLE: from a panel's left side to its boxes' middle
WIDE, TALL, SIDE = 100, 88, 44  # long sides of the two weights, and the short side of both
BOX_W, BOX_H = 116, 28
X_Y, W_Y, HIDDEN_Y, V_Y, PART_Y, Y_Y = 46, 98, 166, 218, 330, 392


def split_mlp() -> Canvas:
    """Draw what each of two GPUs holds and computes, and the one sum."""
    canvas = Canvas(
        WIDTH,
        436,
        "An MLP on two GPUs",
        "Two GPUs side by side. Both have the whole input X. GPU 0 has the left half of the "
        "columns of W and the upper half of the rows of V, GPU 1 the other halves. Each multiplies "
        "X with its columns, applies GELU, and multiplies the result with its rows. That gives "
        "each GPU one of two terms of Y. A double arrow over the link adds the terms: an "
        "all-reduce, after which both GPUs have the whole Y.",
    )
    for device in (0, 1):
        _gpu(canvas, device)
    y = PART_Y + BOX_H / 2
    ends = (LEFT[0] + MIDDLE + BOX_W / 2 + 3, y), (LEFT[1] + MIDDLE - BOX_W / 2 - 3, y)
    canvas.arrow(*ends, colour=LINK, width=2.5, both=True, head=10)
    canvas.text(LEFT[0] + PANEL_W - 38, PART_Y, "all-reduce", fill=LINK_TEXT, fit=74)
    return canvas


def _gpu(canvas: Canvas, device: int) -> None:
    colour, own = GPU[device], device + 1
    middle, beside = LEFT[device] + MIDDLE, LEFT[device] + MIDDLE + 56
    canvas.panel(LEFT[device], 6, PANEL_W, 424, f"GPU {device}", colour)
    for y, label, share in (
        (X_Y, "*X*", 0),
        (HIDDEN_Y, f"gelu(*X W*_{{{own}}})", 0.3),
        (PART_Y, f"term {own} of *Y*", 0.3),
        (Y_Y, "*Y*", 0),
    ):
        canvas.box(middle - BOX_W / 2, y, BOX_W, BOX_H, label, colour if share else HOST)
    _halves(canvas, (middle - WIDE / 2, W_Y), (WIDE / 2, 0), (WIDE / 2, SIDE), device, "W")
    _halves(canvas, (middle - SIDE / 2, V_Y), (0, TALL / 2), (SIDE, TALL / 2), device, "V")
    canvas.text(beside + 4, W_Y + SIDE / 2, "columns", anchor="start", fill=INK, fit=72)
    canvas.text(beside - 24, V_Y + TALL / 2, "rows", anchor="start", fill=INK, fit=72)
    below = {X_Y: BOX_H, W_Y: SIDE, HIDDEN_Y: BOX_H, V_Y: TALL, PART_Y: BOX_H}
    for (y, height), end in zip(below.items(), [*list(below)[1:], Y_Y], strict=True):
        canvas.arrow((middle, y + height + 2), (middle, end - 2), colour=colour, head=7)


def _halves(canvas, corner, step, size, device, name) -> None:
    """Draw a weight of which this GPU has one half."""
    for half in (0, 1):
        x, y = (c + half * s for c, s in zip(corner, step, strict=True))
        if half == device:
            canvas.box(x, y, *size, f"*{name}*_{{{half + 1}}}", GPU[device], 0.3)
        else:
            canvas.ghost(x, y, *size)
