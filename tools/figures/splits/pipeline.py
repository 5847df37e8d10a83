"""A network that is cut into stages."""

from __future__ import annotations

from tools.canvas import GPU, LINK, WIDTH, Canvas

P, LAYERS = 4, 16


def cut_network() -> Canvas:
    """Draw sixteen layers on four GPUs, and what crosses the cuts."""
    canvas = Canvas(
        WIDTH,
        170,
        "A network cut into four stages",
        "Four GPUs in a row. GPU 0 has layers 0 to 3, GPU 1 layers 4 to 7, GPU 2 layers 8 to 11, "
        "GPU 3 layers 12 to 15. Between neighbours, activations go forward and gradients back.",
    )
    each, wide = LAYERS // P, 84
    for rank in range(P):
        x = 10 + 112 * rank
        canvas.panel(x, 10, wide, 118, f"GPU {rank}", GPU[rank])
        for i in range(each):
            canvas.box(x + 6, 36 + 22 * i, wide - 12, 18, f"layer {rank * each + i}", GPU[rank])
        if rank < P - 1:
            canvas.arrow((x + wide + 2, 58), (x + wide + 26, 58), colour=LINK)
            canvas.arrow((x + wide + 26, 98), (x + wide + 2, 98), colour=LINK, dash="4 3")
    canvas.arrow((14, 150), (40, 150), colour=LINK)
    canvas.text(48, 150, "activations", anchor="start")
    canvas.arrow((204, 150), (178, 150), colour=LINK, dash="4 3")
    canvas.text(212, 150, "their gradients", anchor="start")
    return canvas
