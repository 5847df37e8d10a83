"""Tensor and sequence parallelism: which part of each activation a rank has, region by region."""

from __future__ import annotations

from tools.figures.strips.film import EMPTY, PASSED, Film
from tools.words import say

RANKS = 4
SPLITS = ("tensor parallelism", "with sequence parallelism")
TOKENS, WIDTH_H = 2048, 4096  # s and h of the example, one sequence in bfloat16
TIMES = "\N{MULTIPLICATION SIGN}"
REGIONS = (say("norm"), say("enters"), say("between"), say("product"), say("leaves"))


def regions(split):
    """Return for each region what happens, and the share of tokens and of features of a rank.

    Features count in h; True says that a rank has a term of the sum, not the value.
    """
    by_tokens = split == SPLITS[1]
    tokens = 1 / RANKS if by_tokens else 1
    if by_tokens:
        enter, leave = say("All-gather the tokens"), say("Reduce-scatter along the tokens")
    else:
        enter = say("Nothing is sent: every rank has the input")
        leave = say("All-reduce the terms")
    return [
        (say("Norm and dropout before the MLP"), tokens, 1, 1, False),
        (enter, 1, 1, 1, False),
        (say("Multiply with the own columns of the first weight"), 1, 4 / RANKS, 4, False),
        (say("Multiply with the own rows of the second weight"), 1, 1, 1, True),
        (leave, tokens, 1, 1, False),
    ]


def shape(tokens, features, of):
    """Return the shape of a rank's part in letters."""
    first = "s" if tokens == 1 else f"s/{round(1 / tokens)}"
    second = "h" if of == 1 else f"{of}h/{round(of / features)}"
    return f"{first} {TIMES} {second}"


def megabytes(tokens, features):
    """Return how large a rank's part is, in bfloat16."""
    return 2 * tokens * TOKENS * features * WIDTH_H / 1e6


def film(split):
    """Return the film of one MLP's forward pass."""
    made = Film(322)
    for i, name in enumerate(REGIONS):
        made.text(_left(i) + 32, 14, name)
    for rank in range(RANKS):
        made.text(6, 60 + 60 * rank, say("rank {n}", n=rank), "start")
    for i, (event, tokens, features, of, term) in enumerate(regions(split)):
        letters, size = shape(tokens, features, of), megabytes(tokens, features)
        values = {"event": event, "shape": letters, "size": f"{size:.1f}"}
        if term:
            told = say("{event}. Each rank has {shape}, a term of the sum: {size} MB.", **values)
        else:
            told = say("{event}. Each rank has {shape}: {size} MB.", **values)
        made.says.append(told)
        made.text(_left(i) + 32, 276, letters if not term else say("a term"), since=i)
        made.text(_left(i) + 32, 296, f"{size:.1f} MB", since=i)
        for rank in range(RANKS):
            made.box(_left(i), 32 + 60 * rank, 64, 54, EMPTY, "", i)
            _part(made, i, rank, tokens, features / of, term)
    return made


def _left(i):
    return 62 + 76 * i


def _part(made, i, rank, tokens, share, term):
    x, y = _left(i) + 2, 34 + 60 * rank
    if term:  # in the colour of the rank, pale: to be summed
        made.box(x, y, 60, 50, PASSED + rank, "+", i)
    elif share < 1:
        made.box(x + 60 * share * rank, y, 60 * share, 50, rank, "", i)
    else:
        for part in range(RANKS) if tokens == 1 else [rank]:
            made.box(x, y + 12.5 * part, 60, 12.5, part, "", i)
