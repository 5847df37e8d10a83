"""The way of tokens to experts on two GPUs, and back: two all-to-alls, and a sort before each."""

from __future__ import annotations

from simgpu.units import MUTED
from tools.canvas import GPU, LINK, LINK_TEXT, WIDTH, Canvas

LEFT, PANEL_W = (6, 224), 210
BOX_W, BOX_H, PITCH = 36, 26, 39
ROW, BAND = 50, 54  # from a row to the next; and more where an all-to-all lies between
# Each token and its expert; experts 0 and 1 are on GPU 0, 2 and 3 on GPU 1.
TOKENS = ("a2 b1 c3 d0", "e0 f3 g1 h0")


def _sorted(rows):
    return sorted(rows, key=lambda row: row[1])


def _stages():
    """Return the rows that each GPU has, from stage to stage, with what is said of them."""
    tokens = [row.split() for row in TOKENS]
    leaving = [_sorted(rows) for rows in tokens]
    arrived = [[x for rows in leaving for x in rows if int(x[1]) // 2 == gpu] for gpu in (0, 1)]
    by_expert = [_sorted(rows) for rows in arrived]
    return [
        ("tokens, and their experts", tokens),
        ("sorted by expert", leaving),
        ("arrived, sorted by sender", arrived),
        ("sorted by expert", by_expert),
        ("results", by_expert),
        ("sort undone", arrived),
        ("arrived", leaving),
        ("sort undone", tokens),
    ]


def two_all_to_alls() -> Canvas:
    """Draw what each of two GPUs has, from its tokens to their results."""
    stages, height = _stages(), 40 + 8 * ROW + 2 * BAND + 8
    canvas = Canvas(
        WIDTH,
        height,
        "The two all-to-alls of a layer of experts",
        "Two GPUs side by side, with four tokens and two experts each. From top to bottom, each "
        "GPU sorts its tokens by expert. An all-to-all sends each one to the GPU that has its "
        "expert: five go to GPU 0 and three to GPU 1, where they arrive sorted by sender. They are "
        "sorted by expert once more, and the experts compute. Then the second sort is undone, a "
        "second all-to-all brings the results back, and the first sort is undone.",
    )
    for gpu in (0, 1):
        canvas.panel(LEFT[gpu], 4, PANEL_W, height - 8, f"GPU {gpu}", GPU[gpu])
    y = 40
    for number, (label, rows) in enumerate(stages):
        for gpu in (0, 1):
            _rows(canvas, gpu, y, label, rows[gpu], filled=number >= 4)
        y += ROW
        if number in (1, 5):
            _all_to_all(canvas, y - 4)
            y += BAND
    return canvas


def _rows(canvas, gpu, y, label, rows, filled) -> None:
    middle = LEFT[gpu] + PANEL_W / 2
    canvas.text(middle, y + 8, label, fill=MUTED, fit=PANEL_W - 12)
    left = middle - (len(rows) * PITCH - (PITCH - BOX_W)) / 2
    for i, (token, expert) in enumerate(rows):
        share = 0.45 if filled else 0.14
        label = f"*{token}*_{{{expert}}}"
        canvas.box(left + i * PITCH, y + 18, BOX_W, BOX_H, label, GPU[int(expert) // 2], share)


def _all_to_all(canvas, y) -> None:
    middles = [left + PANEL_W / 2 for left in LEFT]
    for source, start in enumerate(middles):
        for target, end in enumerate(middles):
            colour = LINK if source != target else MUTED
            shift = 14 if source != target else 0
            x = start + shift * (1 if target > source else -1)
            canvas.arrow((x, y + 8), (end - (x - start), y + BAND - 6), colour=colour)
    canvas.text(WIDTH / 2, y + 6, "all-to-all", fill=LINK_TEXT, bold=True, fit=80)
