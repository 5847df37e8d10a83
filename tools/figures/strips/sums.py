"""An all-reduce by three algorithms: whose data each part of each rank adds up, step by step."""

from __future__ import annotations

from tools.figures.strips.film import EMPTY, QUIET, Film
from tools.words import say

RANKS = 4  # a tensor has as many parts
WAYS = ("ring", "tree", "two servers of two")
ALL = tuple(range(RANKS))


def steps(way):
    """Return the messages of each step: sender, receiver, parts, and whether these are added."""
    if way == "ring":
        around = [(r, (r + 1) % RANKS) for r in ALL]
        return [
            [(r, to, ((r - step) % RANKS,), step < RANKS - 1) for r, to in around]
            for step in range(2 * (RANKS - 1))
        ]
    if way == "tree":
        up = [[(1, 0, ALL, True), (3, 2, ALL, True)], [(2, 0, ALL, True)]]
        return up + [[(to, r, ALL, False) for r, to, *_ in step] for step in reversed(up)]
    inside, across = [(0, 1), (1, 0), (2, 3), (3, 2)], [(0, 2), (1, 3), (2, 0), (3, 1)]
    part = [2 * (r % 2) + r // 2 for r in ALL]  # that a rank sends to the other server first
    return [
        [(r, to, _half(to), True) for r, to in inside],
        [(r, to, (part[r],), True) for r, to in across],
        [(r, to, (part[to],), False) for r, to in across],
        [(r, to, _half(r), False) for r, to in inside],
    ]


def _half(rank):
    """Return the parts that a rank sums up for its server."""
    return (0, 1) if rank % 2 == 0 else (2, 3)


def states(way):
    """Return, at first and after each step, whose data ``held[rank][part]`` adds up."""
    held = [[[frozenset({rank})] * RANKS for rank in ALL]]
    for messages in steps(way):
        before, after = held[-1], [list(row) for row in held[-1]]
        for sender, receiver, parts, added in messages:
            for part in parts:
                arrived = before[sender][part]
                after[receiver][part] = arrived | before[receiver][part] if added else arrived
        held.append(after)
    return held


def film(way):
    """Return the film of a sum of four tensors of S bytes."""
    made, sent = Film(302), steps(way)
    for part in ALL:
        made.text(_left(part) + 20, 14, say("part {n}", n=part))
    made.text(270, 14, say("sends part"), "start")
    made.says.append(say("At first every rank has its own data."))
    for number, messages in enumerate(sent, 1):
        added = any(message[3] for message in messages)
        size = max(len(parts) for _, _, parts, _ in messages)
        amount = "S" if size == RANKS else f"{size}/{RANKS} S"
        values = {"n": number, "count": len(sent), "amount": amount}
        if added:
            told = say(
                "Step {n} of {count}: each receiver adds what arrives."
                " A message has {amount} bytes.",
                **values,
            )
        else:
            told = say(
                "Step {n} of {count}: each receiver copies what arrives."
                " A message has {amount} bytes.",
                **values,
            )
        made.says.append(told)
        for sender, receiver, parts, _ in messages:
            first, last = parts[0], parts[-1]
            if len(parts) == RANKS:
                words = say("0 to 3 to rank {rank}", rank=receiver)
            elif len(parts) == 2:
                words = say("{a} and {b} to rank {rank}", a=first, b=last, rank=receiver)
            else:
                words = say("{a} to rank {rank}", a=first, rank=receiver)
            made.text(270, 59 + 66 * sender, words, "start", QUIET, number, number)
    for rank in ALL:
        made.text(6, 59 + 66 * rank, say("rank {n}", n=rank), "start")
    for step, held in enumerate(states(way)):
        for rank in ALL:
            for part in ALL:
                _part(made, rank, part, sorted(held[rank][part]), step)
    return made


def _left(part):
    return 68 + 46 * part


def _part(made, rank, part, terms, step):
    x, y = _left(part), 32 + 66 * rank
    made.box(x, y, 42, 54, EMPTY, "", step, step)
    for i, term in enumerate(terms):
        made.box(x + 2, y + 2 + 50 / len(terms) * i, 38, 50 / len(terms), term, "", step, step)
