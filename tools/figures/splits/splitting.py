"""Two ways to split a network over two GPUs, and how AlexNet was split."""

# ruff: noqa: RUF001 -- the multiplication and minus signs in the labels are meant

from __future__ import annotations

from simgpu.units import INK, MUTED
from tools.canvas import DASH, GPU, HOST, LINK, LINK_TEXT, WIDTH, Canvas

PANEL_X, PANEL_W = (20, 250), 170
BAR_X, BAR_W, BAR_H = (36, 266), 138, 32
PANEL_Y, FIRST_BAR, PITCH, LAYERS = 52, 84, 50, 4


def _bar_y(layer: int) -> float:
    return FIRST_BAR + PITCH * (layer - 1)


def _start(title: str, desc: str, facts: tuple[str, str, str]) -> Canvas:
    """Draw what the two ways have in common: two GPUs, and three facts below them."""
    canvas = Canvas(WIDTH, 376, title, desc)
    for i in (0, 1):
        canvas.panel(PANEL_X[i], PANEL_Y, PANEL_W, 238, f"GPU {i}", GPU[i])
    for row, (name, fact) in enumerate(zip(("holds", "link", "waits"), facts, strict=True)):
        y = 310 + 24 * row
        colour = LINK_TEXT if name == "link" else INK
        canvas.text(20, y, name, anchor="start", bold=True, fill=colour, fit=50)
        canvas.text(76, y, fact, anchor="start", fill=colour, fit=WIDTH - 86)
    return canvas


def _batch(canvas: Canvas, device: int, count: int, label: str) -> None:
    """Draw `count` small squares for examples, and an arrow into the GPU."""
    middle = PANEL_X[device] + PANEL_W / 2
    left = middle - 6 * count - 4 * len(label) - 3
    for i in range(count):
        canvas.rect(left + 12 * i, 13, 10, 10, HOST, rx=1.5)
    canvas.text(left + 12 * count + 6, 18, label, anchor="start", fit=88)
    canvas.arrow((middle, 30), (middle, 50), colour=HOST)


def _down(canvas: Canvas, x: float, layer: int, device: int) -> None:
    """Draw the arrow from a layer to the next one on the same GPU."""
    start = _bar_y(layer) + BAR_H + 1
    canvas.arrow((x, start), (x, start + PITCH - BAR_H - 2), colour=GPU[device], head=7)


def split_network() -> Canvas:
    """Draw the split by depth: some layers here, the others there."""
    canvas = _start(
        "Splitting the network by depth",
        "Two GPUs side by side. GPU 0 receives all images of the batch and holds layers 1 and 2; "
        "GPU 1 holds layers 3 and 4. A solid arrow carries the activations of layer 2 over the "
        "link to layer 3, a dashed arrow carries their gradients back.",
        (
            "half of the layers",
            "activations there, gradients back (dashed)",
            "one GPU idles while the other works",
        ),
    )
    _batch(canvas, 0, 8, "batch")
    for layer in range(1, LAYERS + 1):
        here = 0 if layer <= 2 else 1
        canvas.box(BAR_X[here], _bar_y(layer), BAR_W, BAR_H, f"layer {layer}", GPU[here], 0.3)
        canvas.ghost(BAR_X[1 - here], _bar_y(layer), BAR_W, BAR_H)
    for layer, device in ((1, 0), (3, 1)):
        _down(canvas, BAR_X[device] + BAR_W / 2, layer, device)
    left, right = BAR_X[0] + BAR_W + 1, BAR_X[1] - 1
    high, low = _bar_y(2) + BAR_H / 2, _bar_y(3) + BAR_H / 2
    middle = (left + right) / 2
    canvas.curve(
        (left, high - 8),
        (middle + 12, high - 8),
        (middle, low - 8),
        (right, low - 8),
        LINK,
        2.5,
        head=10,
    )
    canvas.curve(
        (right, low + 8),
        (middle - 12, low + 8),
        (middle, high + 8),
        (left, high + 8),
        LINK,
        2.5,
        DASH,
        head=10,
    )
    return canvas


def split_layers() -> Canvas:
    """Draw the split by width: half of every layer on each GPU."""
    canvas = _start(
        "Splitting every layer",
        "Two GPUs side by side. Both receive all images of the batch, and each holds one half of "
        "each of the four layers. Between any two layers a double arrow over the link exchanges "
        "the two halves of the activations.",
        (
            "half of every layer",
            "activations, gradients: at every layer",
            "at every layer, forward and backward",
        ),
    )
    half = BAR_W / 2
    for device in (0, 1):
        _batch(canvas, device, 8, "batch")
        solid, empty = (BAR_X[0] + half, BAR_X[0]) if device == 0 else (BAR_X[1], BAR_X[1] + half)
        for layer in range(1, LAYERS + 1):
            canvas.ghost(empty + 2 * device, _bar_y(layer), half - 2, BAR_H)
            canvas.box(solid, _bar_y(layer), half, BAR_H, f"layer {layer}", GPU[device], 0.3)
        for layer in range(1, LAYERS):
            _down(canvas, solid + half / 2, layer, device)
    for layer in range(1, LAYERS):
        y = _bar_y(layer) + (BAR_H + PITCH) / 2 - 1
        ends = (BAR_X[0] + 1.5 * half + 6, y), (BAR_X[1] + half / 2 - 6, y)
        canvas.arrow(*ends, colour=LINK, width=2.5, both=True, head=10)
    return canvas


# name, what each GPU computes, height of its box, does it read the other GPU's half as well?
# Sizes from Krizhevsky, Sutskever and Hinton (2012), figure 2.
ALEXNET = (
    ("conv 1", "55 × 55 × 48", 50, False),
    ("conv 2", "27 × 27 × 128", 38, False),
    ("conv 3", "13 × 13 × 192", 28, True),
    ("conv 4", "13 × 13 × 192", 28, False),
    ("conv 5", "13 × 13 × 128", 28, False),
    ("dense 6", "2048", 24, True),
    ("dense 7", "2048", 24, True),
)


def alexnet_split() -> Canvas:
    """Draw AlexNet's two columns and the few places where they meet."""
    canvas = Canvas(
        WIDTH,
        570,
        "AlexNet on two GPUs",
        "Two columns of boxes, one a GPU with 3 GB of memory. The image of 224 by 224 by 3 goes "
        "to both. On each GPU: convolution 1 gives 55 by 55 by 48, convolution 2 27 by 27 by 128, "
        "convolutions 3 and 4 13 by 13 by 192, convolution 5 13 by 13 by 128, then two dense "
        "layers of 2048 units, and one output of 1000 classes over both. Crossed arrows over the "
        "link appear only before convolution 3 and before the dense layers.",
    )
    left, width = (92, 274), 146
    canvas.text(44, 28, "input", fill=MUTED, fit=60)
    canvas.box(176, 14, 160, 28, "224 × 224 × 3", HOST)
    for device in (0, 1):
        canvas.panel(left[device] - 8, 66, width + 16, 407, f"GPU {device}: 3 GB", GPU[device])
        middle = left[device] + width / 2
        canvas.arrow((256 - 24 + 48 * device, 43), (middle, 64), colour=HOST)
    top, gap = 98, 24
    for row, (name, size, height, crossed) in enumerate(ALEXNET):
        canvas.text(42, top + height / 2, name, fill=MUTED, fit=66)
        for device in (0, 1):
            middle = left[device] + width / 2
            canvas.box(left[device], top, width, height, size, GPU[device], 0.3)
            if row:
                canvas.arrow((middle, top - gap + 1), (middle, top - 1), colour=GPU[device], head=7)
        if crossed:
            _cross(canvas, left[0] + width - 30, left[1] + 30, top - gap + 1, top - 1)
        top += height + gap
    canvas.text(42, top + 24, "dense 8", fill=MUTED, fit=66)
    canvas.box(176, top + 10, 160, 28, "1000 classes", HOST)
    for device in (0, 1):
        middle = left[device] + width / 2
        end = (256 - 36 + 72 * device, top + 8)
        canvas.arrow((middle, top - gap + 1), end, colour=LINK, width=2.5)
    y = top + 66
    canvas.arrow((20, y), (52, y), colour=LINK, width=2.5)
    canvas.text(60, y, "reads the other GPU's half as well", anchor="start", fill=LINK_TEXT)
    return canvas


def _cross(canvas: Canvas, x0: float, x1: float, y0: float, y1: float) -> None:
    canvas.arrow((x0, y0), (x1, y1), colour=LINK, width=2.5)
    canvas.arrow((x1, y0), (x0, y1), colour=LINK, width=2.5)
