"""One step of data parallelism, and two ways to sum over four devices."""

# ruff: noqa: RUF001 -- the multiplication and minus signs in the labels are meant

from __future__ import annotations

from simgpu.units import INK, MUTED, RULE
from tools.canvas import GPU, HOST, LARGE, LINK, LINK_TEXT, WIDTH, Canvas

K = 4


def data_parallel() -> Canvas:
    """Draw the five steps of one update on two GPUs."""
    canvas = Canvas(
        WIDTH,
        516,
        "One step of data parallelism on two GPUs",
        "Five rows, from top to bottom. 1: the batch is split, half goes to each GPU. 2: each GPU "
        "computes the forward pass and the summed loss of its half. 3: each computes its gradient, "
        "g0 and g1, by a backward pass. 4: an all-reduce replaces both by the sum g0 + "
        "g1. 5: each GPU updates its copy of the parameters with the sum, so that both copies "
        "stay equal.",
    )
    left, width = (128, 288), 132
    middle = [x + width / 2 for x in left]
    canvas.box(208, 14, 132, 30, "batch of *n*", HOST)
    for device in (0, 1):
        canvas.panel(left[device] - 8, 96, width + 16, 372, f"GPU {device}", GPU[device])
        end = (middle[device], 94)
        canvas.arrow((274 - 40 + 80 * device, 45), end, colour=LINK, width=2.5, head=10)
    rows = (128, 198, 268, 344, 420)
    steps = ("split", "forward,\nloss", "backward", "all-reduce", "update")
    badge_y = (70, 216, 286, 362, 438)
    for number, (name, y) in enumerate(zip(steps, badge_y, strict=True), 1):
        canvas.badge(20, y, number)
        lines = name.split("\n")
        for i, line in enumerate(lines):
            canvas.text(37, y + 17 * i - 8 * (len(lines) - 1), line, anchor="start", fit=82)
    labels = (
        ("*n*/2 examples",) * 2,
        ("loss *ℓ*_{0}", "loss *ℓ*_{1}"),
        ("gradient *g*_{0}", "gradient *g*_{1}"),
        ("*g*_{0} + *g*_{1}",) * 2,
        ("new *w*",) * 2,
    )
    for row, y in enumerate(rows):
        for device in (0, 1):
            canvas.box(left[device], y, width, 36, labels[row][device], GPU[device], 0.3)
            if row:
                start = (middle[device], rows[row - 1] + 37)
                canvas.arrow(start, (middle[device], y - 1), colour=GPU[device])
    low, high = rows[2] + 38, rows[3] - 2
    canvas.arrow((left[0] + width - 24, low), (left[1] + 24, high), colour=LINK, width=2.5, head=10)
    canvas.arrow((left[1] + 24, low), (left[0] + width - 24, high), colour=LINK, width=2.5, head=10)
    canvas.text(274, 492, "*w* ← *w* − (*η*/*n*)(*g*_{0} + *g*_{1})", fit=300)
    return canvas


def allreduce_star() -> Canvas:
    """Draw the all-reduce that gathers on one GPU and sends the sum back."""
    canvas = Canvas(
        WIDTH,
        286,
        "Allreduce through one GPU",
        "Two pictures of four GPUs. On the left GPUs 1, 2 and 3 each send their whole gradient to "
        "GPU 0, which adds them: copies 1, 2 and 3. On the right GPU 0 sends the sum back to each "
        "of them: copies 4, 5 and 6. All six copies pass GPU 0's link.",
    )
    for half, heading in enumerate(("gather and add", "send the sum back")):
        x0 = 12 + 214 * half
        canvas.text(x0 + 101, 22, heading, LARGE, bold=True, fit=202)
        hub = (x0 + 101, 74)
        for device in (1, 2, 3):
            leaf = (x0 + 34 + 67 * (device - 1), 192)
            start, end = (leaf[0], leaf[1] - 21), (hub[0] + 26 * (device - 2), hub[1] + 23)
            if half:
                start, end = end, start
            canvas.arrow(start, end, colour=LINK, width=2.5, head=10)
            badge = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
            canvas.badge(*badge, device + 3 * half, LINK_TEXT)
            canvas.box(leaf[0] - 31, leaf[1] - 19, 62, 38, f"GPU {device}", GPU[device], 0.3)
        canvas.box(hub[0] - 50, hub[1] - 21, 100, 42, "GPU 0", GPU[0], 0.3, size=LARGE, bold=True)
    canvas.line((220, 14), (220, 216), colour=RULE)
    canvas.text(20, 240, "2(*k* − 1) = 6 copies of all *S* bytes,", anchor="start", fit=410)
    canvas.text(
        20,
        264,
        "one after another over GPU 0's link",
        anchor="start",
        fill=LINK_TEXT,
        fit=410,
    )
    return canvas


def _contributions(step: int) -> dict[tuple[int, int], tuple[frozenset, bool]]:
    """Return, for every (GPU, chunk), whose terms it holds after `step`, and if it just arrived.

    Steps 1 to K - 1 are the reduce-scatter, K to 2K - 2 the all-gather. In each, every GPU sends
    one chunk to the next GPU of the ring.
    """
    held = {(gpu, chunk): frozenset({gpu}) for gpu in range(K) for chunk in range(K)}
    arrived: set[tuple[int, int]] = set()
    for s in range(step):
        adds = s < K - 1
        arrived, before = set(), dict(held)
        for gpu in range(K):
            chunk = (gpu - s) % K if adds else (gpu + 1 - (s - K + 1)) % K
            to = ((gpu + 1) % K, chunk)
            held[to] = before[to] | before[gpu, chunk] if adds else before[gpu, chunk]
            arrived.add(to)
    return {place: (terms, place in arrived) for place, terms in held.items()}


def allreduce_ring() -> Canvas:
    """Draw the ring all-reduce: reduce-scatter, then all-gather, on four GPUs."""
    canvas = Canvas(
        WIDTH,
        508,
        "Ring all-reduce on four GPUs",
        "Four GPUs in a ring, each sending to the next. The gradient is cut into four chunks. "
        "Seven tables show which terms each GPU holds of each chunk: at the start its own, after "
        "three steps of reduce-scatter every GPU holds one complete sum, after three more steps "
        "of all-gather every GPU holds all four sums. The chunk that has just arrived is framed.",
    )
    for gpu in range(K):
        x = 20 + 108 * gpu
        canvas.box(x, 14, 72, 32, f"GPU {gpu}", GPU[gpu], 0.3)
        if gpu < K - 1:
            canvas.arrow((x + 74, 30), (x + 106, 30), colour=LINK, width=2.5, head=10)
    canvas.arrow((380, 47), (380, 62), (56, 62), (56, 48), colour=LINK, width=2.5, head=10)
    canvas.text(14, 88, "reduce-scatter: add what arrives", LARGE, "start", bold=True, fit=400)
    canvas.text(14, 264, "all-gather: copy what arrives", LARGE, "start", bold=True, fit=400)
    for step in range(2 * K - 1):
        row, column = (0, step) if step < K else (1, step - K + 1)
        label = f"step {step}" if step else "start"
        _table(canvas, 60 + 95 * column, 106 + 176 * row, label, _contributions(step))
    for row in (0, 1):
        for gpu in range(K):
            y = 139 + 176 * row + 30 * gpu
            canvas.text(14, y, f"GPU {gpu}", anchor="start", fit=44)
    _legend(canvas, 66, 315)
    lines = (
        "2(*k* − 1) = 6 steps; in each, every link",
        "carries one chunk of *S*/*k* bytes at once;",
        "in all 2(*k* − 1)*S*/*k* < 2*S* bytes a link",
    )
    for i, line in enumerate(lines):
        fill = LINK_TEXT if i == 2 else INK
        canvas.text(14, 446 + 22 * i, line, anchor="start", fill=fill, fit=416)
    return canvas


def _table(canvas: Canvas, x: float, y: float, label: str, state: dict) -> None:
    """Draw a table of GPUs (rows) by chunks (columns), each cell striped by its terms."""
    canvas.text(x + 42, y + 6, label, fill=MUTED, fit=84)
    for (gpu, chunk), (terms, arrived) in state.items():
        left, top = x + 22 * chunk, y + 20 + 30 * gpu
        canvas.rect(left, top, 20, 26, "#F3F4F6", RULE, rx=2, width=1)
        for term in sorted(terms):
            canvas.rect(left + 2, top + 2 + 5.5 * term, 16, 5.5, GPU[term], rx=0)
        if arrived:
            canvas.rect(left - 0.5, top - 0.5, 21, 27, "none", INK, rx=2, width=2)


def _legend(canvas: Canvas, x: float, y: float) -> None:
    """Explain the stripes, in the place of the eighth table."""
    lines = ("one stripe", "per term of", "the sum")
    for i, line in enumerate(lines):
        canvas.text(x, y + 18 * i, line, anchor="start", fill=MUTED, fit=84)
