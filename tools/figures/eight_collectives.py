"""What four ranks hold after each of eight collectives."""

from __future__ import annotations

from simgpu.units import INK, MUTED, RULE, WHITE
from tools.canvas import GPU, WIDTH, Canvas

K = 4
ALL = frozenset(range(K))
EVERYWHERE = [(rank, part) for rank in range(K) for part in range(K)]


def _held() -> dict[str, dict[tuple[int, int], tuple[frozenset, str]]]:
    """Return, by collective and (rank, column), whose data a rank holds, and which part of it."""
    one = [frozenset({rank}) for rank in range(K)]
    return {
        "broadcast": {place: (one[0], str(place[1])) for place in EVERYWHERE},
        "reduce": {(0, part): (ALL, "") for part in range(K)},
        "scatter": {(rank, rank): (one[0], str(rank)) for rank in range(K)},
        "gather": {(0, other): (one[other], "") for other in range(K)},
        "all-reduce": {place: (ALL, "") for place in EVERYWHERE},
        "all-gather": {place: (one[place[1]], "") for place in EVERYWHERE},
        "reduce-scatter": {(rank, rank): (ALL, "") for rank in range(K)},
        "all-to-all": {place: (one[place[1]], str(place[0])) for place in EVERYWHERE},
    }


def eight_collectives() -> Canvas:
    """Draw a table of ranks (rows) for each collective."""
    canvas = Canvas(
        WIDTH,
        384,
        "What four ranks hold after each collective",
        "Eight small tables with a row for each of four ranks. A colour is a rank's data, a number "
        "the part of it. Broadcast: all rows have the four parts of rank 0. Reduce: row 0 alone "
        "has the sums of all four ranks. Scatter: row r has part r of rank 0. Gather: row 0 alone "
        "has one piece from each rank. All-reduce: all rows have all sums. All-gather: all rows "
        "have one piece from each rank. Reduce-scatter: row r has the sum of part r. All-to-all: "
        "row r has part r of each rank.",
    )
    for i, (name, held) in enumerate(_held().items()):
        row, column = divmod(i, 4)
        _table(canvas, 55 + 96 * column, 14 + 172 * row, name, held)
    for row in (0, 1):
        for rank in range(K):
            y = 54 + 172 * row + 31 * rank
            canvas.text(4, y, f"rank {rank}", anchor="start", fit=48)
    canvas.text(
        8, 368, "colour: whose data; number: which part; stripes: a sum",
        anchor="start", fill=MUTED, fit=424,
    )  # fmt: skip
    return canvas


def _table(canvas: Canvas, x: float, y: float, name: str, held: dict) -> None:
    canvas.text(x + 45, y + 8, name, fit=102)
    for rank, column in EVERYWHERE:
        left, top = x + 23 * column, y + 24 + 31 * rank
        canvas.rect(left, top, 21, 27, "#F3F4F6", RULE, rx=2, width=1)
        terms, part = held.get((rank, column), (frozenset(), ""))
        high = 24 / max(len(terms), 1)
        for i, term in enumerate(sorted(terms)):
            canvas.rect(left + 1.5, top + 1.5 + high * i, 18, high, GPU[term], rx=0)
        if part:
            canvas.circle(left + 10.5, top + 13.5, 8, WHITE)
            canvas.text(left + 10.5, top + 13.5, part, fill=INK)
