"""A Transformer block with the shapes of its activations and the sizes of its weights."""

from __future__ import annotations

from simgpu.units import BLUE, GREEN, MUTED, PURPLE
from tools.canvas import HOST, LARGE, WIDTH, Canvas

# (what computes, what it gives, its weights, colour)
ROWS = (
    ("tokens", "*b*, *s*", "", HOST),
    ("embedding", "*b*, *s*, *h*", "*V h*", HOST),
    ("norm", "*b*, *s*, *h*", "2*h*", GREEN),
    ("linear: q, k, v", "3 (*b*, *a*, *s*, *h*/*a*)", "3*h*^{2}", BLUE),
    ("softmax(q k^{T})", "*b*, *a*, *s*, *s*", "", PURPLE),
    ("times v", "*b*, *s*, *h*", "", PURPLE),
    ("linear", "*b*, *s*, *h*", "*h*^{2}", BLUE),
    ("norm", "*b*, *s*, *h*", "2*h*", GREEN),
    ("linear: up", "*b*, *s*, 4*h*", "4*h*^{2}", BLUE),
    ("GELU", "*b*, *s*, 4*h*", "", GREEN),
    ("linear: down", "*b*, *s*, *h*", "4*h*^{2}", BLUE),
    ("norm, linear", "*b*, *s*, *V*", "*V h*", HOST),
)
FIRST, LAST = 2, 10  # the rows of the block
PARTS = ((2, 6, "attention"), (7, 10, "MLP"))  # around each of which its input is added
LEFT, ROW_WIDTH, ROW, PITCH, TOP = 92, 130, 28, 42, 44
SHAPES, WEIGHTS = 298, 396


def transformer_block() -> Canvas:
    """Draw the layers of a Transformer, with what each gives and what it stores."""
    bottom = TOP + PITCH * len(ROWS)
    canvas = Canvas(
        WIDTH,
        bottom + 8,
        "A Transformer and the shapes in it",
        "Layers from top to bottom, with the shape of what each gives and the number of its "
        "weights. Tokens (b, s) go through an embedding into (b, s, h). A frame marks one of L "
        "equal blocks. In it, attention: a norm, a linear layer that gives queries, keys and "
        "values for a heads, 3 h squared weights; the softmax of their products, (b, a, s, s); "
        "its product with the values; a linear layer, h squared. Then the MLP: a norm, a linear "
        "layer up to (b, s, 4h), 4 h squared, GELU, and one down, 4 h squared. Around both parts "
        "an arrow leads the input past them, to be added. At the end a norm and a linear layer "
        "give (b, s, V).",
    )
    for x, name in ((LEFT + ROW_WIDTH / 2, "layer"), (SHAPES, "gives"), (WEIGHTS, "weights")):
        canvas.text(x, 20, name, LARGE, bold=True)
    frame = TOP + PITCH * FIRST - 10
    canvas.rect(6, frame, WIDTH - 12, PITCH * (LAST - FIRST + 1) + 4, "#F3F4F6", rx=8)
    canvas.text(41, frame + 14, "*L* times", bold=True, fit=60)
    for row, (layer, shape, weights, colour) in enumerate(ROWS):
        y = TOP + PITCH * row
        canvas.box(LEFT, y, ROW_WIDTH, ROW, layer, colour)
        canvas.text(SHAPES, y + ROW / 2, shape, fit=142)
        canvas.text(WEIGHTS, y + ROW / 2, weights, fit=60)
        if row:
            middle = LEFT + ROW_WIDTH / 2
            canvas.arrow((middle, y - PITCH + ROW), (middle, y - 1), colour=MUTED)
    for first, last, name in PARTS:
        start, end = TOP + PITCH * first - 7, TOP + PITCH * last + ROW + 5
        middle = LEFT + ROW_WIDTH / 2
        canvas.arrow((middle, start), (78, start), (78, end), (middle, end), width=1.5)
        canvas.text(41, (start + end) / 2, name, fit=70)
    return canvas
