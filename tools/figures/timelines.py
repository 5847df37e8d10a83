"""Timelines: what overlaps with what."""

from __future__ import annotations

from simgpu.units import INK, MUTED, RULE, WHITE, YELLOW
from tools.canvas import GPU, HOST, LARGE, LINK, LINK_TEXT, WIDTH, Canvas

EVENT = YELLOW
LANE, BLOCK = 36, 28  # height of a lane, and of a block in it


class Lanes:
    """Rows of blocks along a common axis of time; `unit` is the width of one unit of time."""

    def __init__(self, canvas: Canvas, left: float, top: float, unit: float) -> None:
        self.canvas, self.left, self.top, self.unit = canvas, left, top, unit
        self.count = 0

    def lane(self, name: str) -> None:
        """Add a lane below the earlier ones."""
        y = self.top + LANE * self.count
        self.canvas.text(14, y + BLOCK / 2, name, anchor="start", fill=MUTED, fit=self.left - 18)
        right = self.canvas.width - 12
        self.canvas.line((self.left, y + BLOCK + 4), (right, y + BLOCK + 4), colour=RULE, width=1)
        self.count += 1

    def block(
        self, lane: int, start: float, length: float, label: str, colour: str, share: float = 0.35
    ) -> None:
        """Draw something that lasts from `start` for `length` units of time."""
        x, y = self.left + self.unit * start, self.top + LANE * lane
        self.canvas.box(x + 0.5, y, self.unit * length - 1, BLOCK, label, colour, share)

    def span(self, lane: int, start: float, end: float, label: str, fill: str = INK) -> None:
        """Draw a dimension line below the lanes, with its label under it."""
        x0, x1 = self.left + self.unit * start, self.left + self.unit * end
        y = self.top + LANE * lane + 8
        for x in (x0, x1):
            self.canvas.line((x, y - 7), (x, y + 7), colour=fill, width=1)
        self.canvas.arrow((x0, y), (x1, y), colour=fill, width=1.5, both=True)
        self.canvas.text((x0 + x1) / 2, y + 18, label, fill=fill)


def overlap() -> Canvas:
    """Draw computing and copying one after the other, and overlapped."""
    results, copy = 5, 0.8
    canvas = Canvas(
        WIDTH,
        322,
        "Copy after computing, and while computing",
        "Two timelines with a lane for computing and one for copying. Above, five results y0 to "
        "y4 are computed and only then copied one by one: the times add up. Below, each result "
        "is copied while the next one is computed: all but the last copy is hidden.",
    )
    for row, heading in enumerate(("run, then copy", "copy *y*_{i} while computing *y*_{i+1}")):
        top = 40 + 158 * row
        canvas.text(14, top - 20, heading, LARGE, "start", bold=True, fit=410)
        lanes = Lanes(canvas, left=84, top=top, unit=38)
        lanes.lane("compute")
        lanes.lane("copy")
        end = 0.0
        for i in range(results):
            start = max(i + 1.0 if row else float(results), end)
            end = start + copy
            lanes.block(0, i, 1, f"*y*_{{{i}}}", GPU[0])
            lanes.block(1, start, copy, f"*y*_{{{i}}}", LINK)
        label = "about max(run, copy)" if row else "run + copy"
        lanes.span(2, 0, end, label, LINK_TEXT if row else INK)
    return canvas


def kernel_start() -> Canvas:
    """Draw which of three times decides when a kernel starts."""
    canvas = Canvas(
        WIDTH,
        466,
        "What a kernel waits for before it starts",
        "Three timelines of kernels A and B. First: the host launches B late, the GPU is idle, and "
        "B starts as soon as it has been launched. Second: both are launched early into one "
        "stream, and B starts when A has ended. Third: A and B are in two streams, but there is "
        "one compute engine, and B starts when A leaves it.",
    )
    cases = (
        ("launched late", ("host", "stream"), 4, "launched"),
        ("behind another kernel", ("host", "stream"), 1.5, "stream"),
        ("two streams, one engine", ("host", "stream 1", "stream 2"), 1.5, "engine"),
    )
    top = 46
    for heading, names, launch, decides in cases:
        canvas.text(14, top - 22, heading, LARGE, "start", bold=True, fit=410)
        lanes = Lanes(canvas, left=102, top=top, unit=38)
        for name in names:
            lanes.lane(name)
        for kernel, start in ("A", 0), ("B", launch):
            lanes.block(0, start, 1.5, kernel, HOST)
        late = decides == "launched"
        end, start = (3, 5.5) if late else (6, 6)
        lanes.block(1, 1.5, end - 1.5, "A", GPU[0])
        lanes.block(len(names) - 1, start, 2, "B", GPU[0])
        if late:
            canvas.text(lanes.left + 38 * 4.25, top + LANE + BLOCK / 2, "idle", fill=MUTED, fit=90)
        x, bottom = lanes.left + 38 * start, top + LANE * len(names)
        canvas.line((x, top - 6), (x, bottom + 4), colour=INK, width=1.5, dash="4 3")
        canvas.text(x, bottom + 16, f"B starts at *t*_{{{decides}}}", fit=200)
        top = bottom + 66
    return canvas


def ddp_buckets() -> Canvas:
    """Draw how gradients are reduced in buckets while the backward pass goes on."""
    canvas = Canvas(
        WIDTH,
        450,
        "Gradient buckets of DistributedDataParallel",
        "Above, four layers in a row. The backward pass goes from layer 4 to layer 1, so that "
        "gradients become ready back to front; layers 4 and 3 share bucket 0, layers 2 and 1 "
        "bucket 1. Below, two timelines. Without overlap one all-reduce of everything starts after "
        "the whole backward pass. With buckets the all-reduce of bucket 0 runs while layers 2 and "
        "1 are still in the backward pass, and the step ends earlier.",
    )
    for layer in range(1, 5):
        x = 20 + 102 * (layer - 1)
        canvas.box(x, 46, 94, 32, f"layer {layer}", GPU[0], 0.3)
    canvas.arrow((420, 26), (20, 26), colour=INK)
    canvas.rect(178, 14, 84, 24, WHITE, rx=0)
    canvas.text(220, 26, "backward", fit=84)
    for bucket, x in ((1, 20), (0, 224)):
        y = 84
        points = ((x + 2, y), (x + 2, y + 8), (x + 194, y + 8), (x + 194, y))
        canvas.line(*points, colour=LINK, width=2)
        canvas.text(x + 98, y + 24, f"bucket {bucket}", fill=LINK_TEXT, fit=190)

    unit, left = 44, 86
    canvas.text(14, 150, "wait, then reduce", LARGE, "start", bold=True, fit=400)
    apart = Lanes(canvas, left=left, top=170, unit=unit)
    canvas.text(14, 308, "reduce bucket by bucket", LARGE, "start", bold=True, fit=400)
    together = Lanes(canvas, left=left, top=328, unit=unit)
    for lanes, update in ((apart, 7.2), (together, 5.6)):
        lanes.lane("compute")
        lanes.lane("link")
        for i, layer in enumerate((4, 3, 2, 1)):
            lanes.block(0, i, 1, str(layer), GPU[0])
        lanes.block(0, update, 0.5, "", HOST, 0.8)
    apart.block(1, 4, 3.2, "both buckets", LINK)
    together.block(1, 2, 1.6, "bucket 0", LINK)
    together.block(1, 4, 1.6, "bucket 1", LINK)
    apart.span(2, 0, 7.7, "backward + all-reduce + update")
    together.span(2, 0, 6.1, "only bucket 1 is left to wait for", LINK_TEXT)
    canvas.rect(346, 144, 14, 14, "#8A929A", HOST, rx=3)
    canvas.text(366, 151, "update", anchor="start", fill=MUTED, fit=66)
    return canvas


def weak_and_strong() -> Canvas:
    """Draw a step of one GPU, and of four with weak and with strong scaling."""
    travel = 3.4
    canvas = Canvas(
        WIDTH,
        396,
        "A step with weak and with strong scaling",
        "Three timelines. One GPU computes 256 images, forward and backward. Weak scaling: each of "
        "four GPUs computes 256 images, which takes as long; messages travel during the backward "
        "pass, and only their end is exposed. Strong scaling: each of four GPUs computes 64 "
        "images in a quarter of the time; the messages are as long as before, and most of their "
        "time is exposed.",
    )
    rows = (
        ("one GPU, 256 images", 6, 0),
        ("weak scaling: four GPUs, 256 images each", 6, travel),
        ("strong scaling: four GPUs, 64 images each", 1.5, travel),
    )
    top = 34
    for heading, compute, sent in rows:
        canvas.text(14, top - 18, heading, LARGE, "start", bold=True, fit=410)
        lanes = Lanes(canvas, left=86, top=top, unit=50)
        lanes.lane("compute")
        names = ("forward", "backward") if compute > 2 else ("", "")
        lanes.block(0, 0, compute / 3, names[0], GPU[0])
        lanes.block(0, compute / 3, 2 * compute / 3, names[1], GPU[0], 0.55)
        top += 84
        if sent:
            lanes.lane("link")
            start = max(compute + 0.4 - sent, compute / 2)
            lanes.block(1, start, sent, "gradients of all", LINK)
            lanes.span(2, compute, start + sent, "exposed", LINK_TEXT)
            top += 72
    return canvas


def accumulation() -> Canvas:
    """Draw four parts of a minibatch, sent after each part and sent once."""
    canvas = Canvas(
        WIDTH,
        238,
        "Gradient accumulation, sent four times and once",
        "Two timelines of a step in four parts, each with a forward and a backward pass. Above, "
        "DDP sends all gradients after each part. Below, the first three parts are in no_sync and "
        "send nothing; the last part sends what has been accumulated.",
    )
    for row, heading in enumerate(("send in every part", "three parts in no_sync")):
        top = 34 + 116 * row
        canvas.text(14, top - 18, heading, LARGE, "start", bold=True, fit=410)
        lanes = Lanes(canvas, left=86, top=top, unit=56)
        lanes.lane("compute")
        lanes.lane("link")
        gap = 0 if row else 0.4
        for part in range(4):
            start = part * (1 + gap)
            lanes.block(0, start, 1, f"part {part + 1}", GPU[0], 0.35)
            if row == 0 or part == 3:
                lanes.block(1, start + 0.6, 0.8, "send", LINK)
        lanes.block(0, 4 * (1 + gap) + 0.4 * row, 0.4, "", HOST, 0.8)
    return canvas
