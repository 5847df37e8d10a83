"""Dependency graphs: three lines, a two-layer network on three devices, and a diamond."""

from __future__ import annotations

from simgpu.units import INK, MUTED
from tools.canvas import GPU, HOST, LARGE, LINK, LINK_TEXT, WIDTH, Canvas
from tools.figures.timelines import EVENT, Lanes

# One row is one level of the graph: (what each GPU does, what the CPU does).
MLP_LEVELS = (
    ("", "batch"),
    ("forward 1", ""),
    ("forward 2", ""),
    ("loss", ""),
    ("backward: ∂*W*_{2}", ""),
    ("backward: ∂*W*_{1}", "add both ∂*W*_{2},\nupdate *W*_{2}"),
    ("receive *W*_{2}", "add both ∂*W*_{1},\nupdate *W*_{1}"),
    ("receive *W*_{1}", ""),
)
# From level to level, over the link: (level, whether from the CPU to the GPUs).
MLP_TRANSFERS = ((0, True), (4, False), (5, False), (5, True), (6, True))
# From level to level, on the same GPU; the CPU's two updates do not depend on each other.
MLP_STEPS = (1, 2, 3, 4)


def three_lines() -> Canvas:
    """Draw what depends on what in three operations."""
    width, height = 124, 40
    canvas = Canvas(
        WIDTH,
        238,
        "Dependencies of three operations",
        "A graph in three rows. The tensors a and b, in the first row, both feed c = a + b and "
        "d = a * b, which stand side by side in the second; c and d feed e = c @ d in the third.",
    )
    canvas.rect(4, 78, WIDTH - 8, 64, "#F3F4F6", rx=6)
    places = {"a": (60, 10), "b": (256, 10), "c": (60, 90), "d": (256, 90), "e": (158, 170)}
    labels = {"a": "a", "b": "b", "c": "c = a + b", "d": "d = a * b", "e": "e = c @ d"}
    for name, (x, y) in places.items():
        is_input = name in "ab"
        canvas.box(x, y, width, height, labels[name], HOST if is_input else GPU[0], 0.3)
    for start, end, x0, x1 in (
        ("a", "c", -20, -20), ("a", "d", 30, -34), ("b", "c", -30, 34), ("b", "d", 20, 20),
        ("c", "e", 10, -30), ("d", "e", -10, 30),
    ):  # fmt: skip
        (left0, y0), (left1, y1) = places[start], places[end]
        tail, tip = left0 + width / 2 + x0, left1 + width / 2 + x1
        canvas.arrow((tail, y0 + height + 1), (tip, y1 - 1), colour=INK)
    text = "same row: may run at the same time"
    canvas.text(WIDTH / 2, 224, text, fill=MUTED, fit=420)
    return canvas


def mlp_graph() -> Canvas:
    """Draw what depends on what when two GPUs train a network and a CPU holds its parameters."""
    columns, width, height, pitch, top = (10, 158, 306), 124, 40, 60, 44
    canvas = Canvas(
        WIDTH,
        top + pitch * len(MLP_LEVELS) + 28,
        "Dependencies of one training step on a CPU and two GPUs",
        "A graph in eight rows and three columns: GPU 0, CPU, GPU 1. The CPU sends each GPU its "
        "part of the batch. Each GPU computes forward 1, forward 2, the loss, then backward for "
        "the second layer and backward for the first. As soon as both gradients of the second "
        "layer have arrived, the CPU adds them and updates W2, while the GPUs still compute the "
        "gradient of the first layer; then it adds those and updates W1, while the GPUs receive "
        "the new W2; last they receive the new W1. What stands in the same row may run at the "
        "same time.",
    )
    names = ("GPU 0", "CPU", "GPU 1")
    colours = (GPU[0], HOST, GPU[1])
    for x, name in zip(columns, names, strict=True):
        canvas.text(x + width / 2, 22, name, LARGE, bold=True, fit=width)
    for level in range(0, len(MLP_LEVELS), 2):
        canvas.rect(4, top + pitch * level - 10, WIDTH - 8, pitch, "#F3F4F6", rx=6)
    for level, (gpu_label, cpu_label) in enumerate(MLP_LEVELS):
        y = top + pitch * level
        for x, colour, label in zip(
            columns, colours, (gpu_label, cpu_label, gpu_label), strict=True
        ):
            if label:
                canvas.box(x, y, width, height, label, colour, 0.3)
    for level in MLP_STEPS:
        for column in (0, 2):
            x, y = columns[column] + width / 2, top + pitch * level + height
            canvas.arrow((x, y + 1), (x, y + pitch - height - 1), colour=colours[column])
    for level, from_cpu in MLP_TRANSFERS:
        y0, y1 = top + pitch * level + height + 1, top + pitch * (level + 1) - 1
        for side in (-1, 1):
            cpu = columns[1] + width / 2 + side * (width / 2 - 18)
            gpu = columns[1 + side] + width / 2 - side * (width / 2 - 18)
            start, end = ((cpu, y0), (gpu, y1)) if from_cpu else ((gpu, y0), (cpu, y1))
            canvas.arrow(start, end, colour=LINK, width=2.5, head=10)
    y = canvas.height - 18
    canvas.text(WIDTH / 2, y, "same row: may run at the same time", fill=MUTED, fit=420)
    return canvas


def diamond() -> Canvas:
    """Draw a diamond of four tasks, and the times of running it on one and on two devices."""
    canvas = Canvas(
        WIDTH,
        542,
        "A diamond of four tasks on two devices",
        "Above, a graph: the task encode on GPU 0 feeds left on GPU 0 and, over the link, right on "
        "GPU 1; both feed join on GPU 0. Events mark where one device waits for another. Below, "
        "two timelines. On one GPU the tasks run one after another and take 6 units. On two GPUs "
        "left and right run at the same time; the critical path encode, copy, right, copy, join "
        "takes 4.4 units.",
    )
    width, height = 124, 40
    places = {
        "encode": (158, 14, 0), "left": (40, 94, 0), "right": (276, 94, 1), "join": (158, 174, 0)
    }  # fmt: skip
    for name, (x, y, device) in places.items():
        canvas.box(x, y, width, height, f"{name}, GPU {device}", GPU[device], 0.3)
    for start, end in (
        ("encode", "left"),
        ("left", "join"),
        ("encode", "right"),
        ("right", "join"),
    ):
        (x0, y0, _), (x1, y1, _) = places[start], places[end]
        crosses = "right" in (start, end)
        side = 24 if crosses else -24
        p0 = (x0 + width / 2 + (side if start == "encode" else 0), y0 + height + 1)
        p1 = (x1 + width / 2 + (side if end == "join" else 0), y1 - 1)
        colour = LINK if crosses else GPU[0]
        canvas.arrow(p0, p1, colour=colour, width=2.5 if crosses else 2, head=10)
        if crosses:
            middle = ((p0[0] + p1[0]) / 2, (p0[1] + p1[1]) / 2)
            canvas.circle(*middle, 6, EVENT, INK)
    canvas.circle(20, 234, 6, EVENT, INK)
    text = "event: the other device waits for it"
    canvas.text(32, 234, text, anchor="start", fill=MUTED, fit=400)

    one = Lanes(canvas, left=66, top=286, unit=57)
    canvas.text(14, 268, "one device", LARGE, "start", bold=True, fit=300)
    one.lane("GPU 0")
    for name, start, length in (("encode", 0, 1), ("left", 1, 2), ("right", 3, 2), ("join", 5, 1)):
        one.block(0, start, length, name, GPU[0])
    one.span(1, 0, 6, "6 units")

    two = Lanes(canvas, left=66, top=394, unit=57)
    canvas.text(14, 376, "two devices", LARGE, "start", bold=True, fit=300)
    for lane in ("GPU 0", "link", "GPU 1"):
        two.lane(lane)
    for name, start, length in (("encode", 0, 1), ("left", 1, 2), ("join", 3.4, 1)):
        two.block(0, start, length, name, GPU[0])
    two.block(1, 1, 0.2, "", LINK)
    two.block(1, 3.2, 0.2, "", LINK)
    two.block(2, 1.2, 2, "right", GPU[1])
    two.span(3, 0, 4.4, "encode, copy, right, copy, join: 4.4 units", fill=LINK_TEXT)
    return canvas
