"""Devices: the model of a simulated GPU, a step of ``nn.DataParallel``, and what feeds a GPU."""

from __future__ import annotations

from simgpu.units import INK, MUTED, WHITE
from tools.canvas import GPU, HOST, LINK, LINK_TEXT, WIDTH, Canvas


def gpu_model() -> Canvas:
    """Draw what a simulated GPU is made of."""
    canvas = Canvas(
        WIDTH,
        474,
        "What a simulated GPU is made of",
        "Above, the host with a program and its memory, and next to it another GPU. Below, one "
        "GPU. The program launches operations into streams, queues that the GPU works off in "
        "order. Kernels go to the one compute engine, copies to three copy engines: from the "
        "host, to the host, and to or from other GPUs. The copy engines reach host memory and "
        "the other GPU over links. All engines read and write the device memory.",
    )
    canvas.panel(10, 12, 322, 84, "host", HOST)
    canvas.box(22, 44, 144, 40, "program", HOST)
    canvas.box(184, 44, 136, 40, "host memory", HOST)
    canvas.panel(342, 12, 88, 84, "GPU 1", GPU[1])
    canvas.box(350, 44, 72, 40, "memory", GPU[1], 0.3)

    canvas.panel(10, 150, 420, 312, "", GPU[0])
    canvas.text(24, 170, "GPU 0", 16, "start", bold=True, fit=100)
    for stream, (y, kinds) in enumerate(((190, "kkkc"), (222, "cc"))):
        canvas.rect(22, y, 168, 26, WHITE, HOST)
        canvas.text(30, y + 13, f"stream {stream}", anchor="start", fit=68)
        for i, kind in enumerate(kinds):
            colour = GPU[0] if kind == "k" else LINK
            canvas.box(102 + 21 * i, y + 4, 18, 18, "", colour, 0.5)
    engines = (
        (22, 148, "compute\nengine", GPU[0]),
        (184, 72, "copy in\n(h2d)", LINK),
        (264, 72, "copy out\n(d2h)", LINK),
        (350, 72, "peer\n(p2p)", LINK),
    )
    # Launches and hand-outs first, links on top of them, then the boxes.
    canvas.arrow((94, 85), (94, 188), colour=INK)
    canvas.text(102, 122, "launch", anchor="start", fit=80)
    canvas.line((94, 249), (94, 270), (368, 270), colour=MUTED, width=1.5)
    for x in (94, 207, 281, 368):
        canvas.arrow((x, 270), (x, 296), colour=MUTED, width=1.5, head=7)
    for x, start, end in ((231, 85, 296), (305, 296, 85)):
        canvas.arrow((x, start), (x, end), colour=LINK, width=3, head=11)
    canvas.arrow((400, 85), (400, 296), colour=LINK, width=3, both=True, head=11)
    canvas.text(268, 122, "link", fill=LINK_TEXT, fit=60)
    canvas.text(352, 122, "peer link", fill=LINK_TEXT, fit=80)
    for x, width, label, colour in engines:
        canvas.box(x, 298, width, 48, label, colour, 0.3)
        middle = x + width / 2
        ends = ((middle, 348), (middle, 388))
        if label.startswith("copy in"):
            canvas.arrow(*ends, colour=colour)
        elif label.startswith("copy out"):
            canvas.arrow(*reversed(ends), colour=colour)
        else:
            canvas.arrow(*ends, colour=colour, both=True)
    canvas.box(22, 390, 400, 32, "device memory", GPU[0], 0.3)
    for x, colour, label in ((24, GPU[0], "kernel"), (112, LINK, "copy")):
        canvas.box(x, 434, 18, 18, "", colour, 0.5)
        canvas.text(x + 26, 443, label, anchor="start", fill=MUTED, fit=60)
    return canvas


def feeding() -> Canvas:
    """Draw the way of a batch: files, workers, finished batches, pinned memory, the GPU."""
    canvas = Canvas(
        WIDTH,
        206,
        "The way of a batch to the GPU",
        "From left to right. Files on a disk. Two workers on cores of their own: worker 0 makes "
        "batch 4, worker 1 batch 5. Batches 2 and 3 are finished and wait in a queue. Batch 1 is "
        "in pinned memory, from where it is copied over a link to the GPU, which trains on batch "
        "0.",
    )
    canvas.panel(76, 10, 270, 186, "host", HOST)
    canvas.box(10, 86, 50, 44, "files", HOST)
    for worker, y in enumerate((58, 126)):
        canvas.box(88, y, 84, 48, f"worker {worker}\nbatch {4 + worker}", GPU[2], 0.3)
        canvas.arrow((61, 108), (86, y + 24), colour=MUTED, width=1.5, head=7)
        canvas.arrow((173, y + 24), (194, y + 24), colour=MUTED, width=1.5, head=7)
        canvas.box(196, y + 7, 62, 34, f"batch {2 + worker}", GPU[2], 0.16)
        canvas.arrow((259, y + 24), (274, 108), colour=MUTED, width=1.5, head=7)
    canvas.text(227, 48, "ready", fill=MUTED, fit=62)
    canvas.box(276, 84, 62, 48, "batch 1\npinned", LINK, 0.16)
    canvas.arrow((339, 108), (364, 108), colour=LINK, width=3, head=11)
    canvas.box(366, 84, 64, 48, "batch 0", GPU[0], 0.3)
    canvas.text(398, 70, "GPU 0", bold=True, fit=64)
    canvas.text(398, 150, "a step", fill=MUTED, fit=64)
    return canvas
