"""Processes: the script that they run, their ranks, who starts them, and what they add up."""

from __future__ import annotations

from simgpu.units import INK, MUTED, YELLOW
from tools.canvas import GPU, HOST, LARGE, LINK, LINK_TEXT, WIDTH, Canvas, tint

LEFT, PANEL_W, BOX_W = (14, 226), 200, 86
SIDE, GAP, MESH_LEFT = 40, 8, 12
WRONG = YELLOW  # what a mistake does
NODE_H = 2 * SIDE + GAP + 46
AXES = {"tensor": 1, "context": 2, "shard": 4, "pipeline": 8}  # what is added to a rank
COLOURS = dict(zip(AXES, GPU, strict=True))

# The script for one GPU and for many: a change's number, what it replaces, and what it adds.
# Lines without a number are the same in both.
SCRIPTS = (
    (1, "", 'int(os.environ["LOCAL_RANK"])'),
    (2, "", "dist.init_process_group"),
    (3, "shuffle=True", "DistributedSampler(train_set)"),
    (4, "args.batch_size", "args.batch_size // world_size"),
    (5, "", "X_test[rank::world_size]"),
    (6, "net.to(device)", "DistributedDataParallel(net.to(device))"),
    (None, "for epoch in range(3):", ""),
    (7, "", "sampler.set_epoch(epoch)"),
    (None, "optimizer.zero_grad()", ""),
    (None, 'loss = cross_entropy(model(x), target, reduction="sum")', ""),
    (None, "(loss / len(labels)).backward()", ""),
    (None, "optimizer.step()", ""),
    (8, "", "dist.all_reduce(sums)"),
    (9, "", "if rank == 0:"),
    (10, "", "dist.barrier()"),
)
ROW, BODY = 24, 20  # a line's height; how far the loop's body is indented


def ten_changes() -> Canvas:
    """Draw the script for one GPU beside the one for many, a line for each change."""
    canvas = Canvas(
        WIDTH,
        44 + ROW * len(SCRIPTS),
        "The ten changes from one GPU to many",
        "Two columns. What one GPU's script has on the left is replaced on the right: shuffling by "
        "a sampler, the batch size by a share of it, the network by a wrapped one. Seven lines are "
        "new: take the GPU of the local rank, join, share out the test set, set the epoch, sum "
        "over the ranks, print on rank 0, wait. The training step is the same.",
    )
    canvas.text(8, 18, "one GPU", LARGE, anchor="start", bold=True)
    canvas.text(140, 18, "DDP, on every rank", LARGE, anchor="start", bold=True)
    in_loop = False
    for row, (number, old, new) in enumerate(SCRIPTS):
        y = 46 + ROW * row
        indent = BODY * in_loop
        if number is None:
            canvas.text(8 + indent, y, old, anchor="start", fill=MUTED, fit=WIDTH - 16)
            in_loop = True
            continue
        if old:
            canvas.rect(3, y - 11, 113, 22, tint(LINK), rx=3)
            canvas.text(6, y, old, anchor="start", fit=109)
        canvas.rect(136, y - 11, WIDTH - 139, 22, tint(GPU[1]), rx=3)
        canvas.text(124, y, str(number), bold=True, fit=22)
        canvas.text(140 + indent, y, new, anchor="start", fit=WIDTH - 143 - indent)
    return canvas


def ddp_processes() -> Canvas:
    """Draw two machines with two processes each."""
    canvas = Canvas(
        WIDTH,
        312,
        "One process per GPU, on two machines",
        "On each of two machines torchrun starts two processes. Their ranks are 0 and 1 on the "
        "first machine, 2 and 3 on the second; their local ranks are 0 and 1 on both. Each process "
        "uses the GPU with the number of its local rank. An all-reduce joins all four GPUs.",
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
    canvas.text(WIDTH / 2, 290, "all-reduce of gradients, world size 4", fill=LINK_TEXT, fit=300)
    return canvas


def five_mistakes() -> Canvas:
    """Draw what ranks do after each of five mistakes."""
    canvas = Canvas(
        WIDTH,
        462,
        "Five mistakes and what the ranks do",
        "Five rows. A rank skips a call: rank 0 waits in all_reduce, rank 1 in barrier. set_epoch "
        "is forgotten: three epochs see images 3, 1, 4, 2 in the same order. Wrapped, then moved: "
        "each rank has a gradient and weights of its own. Ten test images on three ranks: four "
        "each, images 0 and 1 twice. Averages of averages: batches of 4, 4 and 2 images count a "
        "third each.",
    )
    rows = iter(
        (
            "1  a rank skips a call",
            "2  set_epoch is forgotten",
            "3  wrapped, then moved",
            "4  the sampler divides 10 test images",
            "5  averages of parts are averaged",
        )
    )

    def heading(y):
        canvas.text(14, y, next(rows), LARGE, "start", bold=True, fit=400)

    heading(16)
    for rank, call in enumerate(("all_reduce", "barrier")):
        y = 32 + 32 * rank
        _rank_name(canvas, rank, y)
        canvas.box(72, y, 96, 26, "same calls", GPU[rank])
        canvas.box(172, y, 252, 26, f"waits in {call}", WRONG, 0.5)
    heading(114)
    for epoch in range(3):
        left = 72 + 124 * epoch
        for place, image in enumerate((3, 1, 4, 2)):
            canvas.box(left + 24 * place, 131, 22, 26, str(image), WRONG, 0.5)
        canvas.text(left + 47, 170, f"epoch {epoch}", fill=MUTED)
    heading(200)
    for rank in range(2):
        y = 216 + 32 * rank
        _rank_name(canvas, rank, y)
        canvas.box(72, y, 120, 26, f"gradient {rank}", GPU[rank])
        canvas.arrow((194, y + 13), (300, y + 13), colour=GPU[rank])
        canvas.box(304, y, 120, 26, f"weights {rank}", WRONG, 0.5)
    heading(298)
    for rank in range(3):
        left = 72 + 124 * rank
        for place in range(4):
            image, again = (rank + 3 * place) % 10, rank + 3 * place > 9
            colour, share = (WRONG, 0.5) if again else (GPU[rank], 0.25)
            canvas.box(left + 24 * place, 314, 22, 26, str(image), colour, share)
        canvas.text(left + 47, 353, f"rank {rank}", fill=MUTED)
    heading(383)
    left = 72
    for images in (4, 4, 2):
        colour, share = (GPU[0], 0.25) if images == 4 else (WRONG, 0.5)
        canvas.box(left, 399, 34 * images - 4, 26, str(images), colour, share)
        canvas.text(left + 17 * images - 2, 440, "counts 1/3", fill=INK)
        left += 34 * images
    return canvas


def _rank_name(canvas, rank, y):
    canvas.text(14, y + 13, f"rank {rank}", anchor="start", fill=MUTED, fit=54)


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
