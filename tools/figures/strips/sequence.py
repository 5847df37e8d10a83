"""Ring attention: which queries meet which keys on which rank, step by step."""

from __future__ import annotations

from tools.figures.strips.film import EMPTY, PASSED, Film
from tools.words import chain, say

RANKS = 4
CHUNKS = 2 * RANKS
ORDERS = ("neighbouring chunks", "zigzag")
SIDE = 25


def chunks_of(rank, order):
    """Return which two of the eight chunks of a sequence a rank holds."""
    if order == "zigzag":
        return (rank, CHUNKS - 1 - rank)
    return (2 * rank, 2 * rank + 1)


def source(rank, step):
    """Return whose keys and values a rank has at a step of the ring."""
    return (rank - step) % RANKS


def blocks(rank, step, order):
    """Return the blocks (query chunk, key chunk) that the causal mask leaves."""
    keys = chunks_of(source(rank, step), order)
    return [(q, k) for q in chunks_of(rank, order) for k in keys if k <= q]


def work(rank, step, order):
    """Return the work of a rank in whole blocks; on the diagonal half of a block is masked."""
    return sum(0.5 if q == k else 1.0 for q, k in blocks(rank, step, order))


def duration(order):
    """Return how long all steps take, in blocks: each lasts as long as its slowest rank."""
    return sum(max(work(r, step, order) for r in range(RANKS)) for step in range(RANKS))


def film(order):
    """Return the film of the forward pass."""
    made = Film(310)
    made.text(52 + CHUNKS * SIDE / 2, 14, say("keys and values"))
    made.text(6, 34, say("queries"), "start")
    made.text(268, 14, say("rank: keys of, blocks"), "start")
    for chunk in range(CHUNKS):
        owner = next(r for r in range(RANKS) if chunk in chunks_of(r, order))
        made.box(58 + SIDE * chunk, 24, SIDE - 2, 20, PASSED + owner, chunk)
        made.box(32, 48 + SIDE * chunk, 22, SIDE - 2, PASSED + owner, chunk)
        for key in range(CHUNKS):
            made.box(58 + SIDE * key, 48 + SIDE * chunk, SIDE - 2, SIDE - 2, EMPTY)
    for step in range(RANKS):
        _step(made, step, order)
    told = say("full colour: now; number: an earlier step; grey: masked")
    made.text(6, 266, told, "start")
    told = say(
        "all steps: {long} blocks long, {equal} on each GPU if all were equal",
        long=f"{duration(order):g}",
        equal=f"{_total(order):g}",
    )
    made.text(6, 288, told, "start")
    return made


def _total(order):
    return sum(work(r, step, order) for r in range(RANKS) for step in range(RANKS)) / RANKS


def _step(made, step, order):
    told = []
    for rank in range(RANKS):
        size, sender = work(rank, step, order), source(rank, step)
        for q, k in blocks(rank, step, order):
            place = 58 + SIDE * k, 48 + SIDE * q, SIDE - 2, SIDE - 2
            made.box(*place, rank, "", step, step)
            made.box(*place, PASSED + rank, step, step + 1)
        y = 60 + 44 * rank
        made.box(268, y - 10, 20, 20, PASSED + rank, rank, step, step)
        values = {"rank": rank, "sender": sender, "size": f"{size:g}"}
        if size:
            short = say("rank {sender}, {size}", **values)
            told.append(
                say(
                    "Rank {rank} has the keys of rank {sender} and computes {size} blocks", **values
                )
            )
        else:
            short = say("rank {sender}, waits", **values)
            told.append(
                say("Rank {rank} has the keys of rank {sender} and waits: all is masked", **values)
            )
        made.text(296, y, short, "start", since=step, until=step)
        made.box(268, y + 14, 1 + 40 * size, 8, rank, "", step, step)
    told = chain(told, say("{before}. {item}"))
    made.says.append(say("Step {step} of the ring. {told}.", step=step, told=told))
