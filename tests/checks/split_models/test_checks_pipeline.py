"""The checkers of the chapter on pipelines accept right solutions and name what is wrong."""

import itertools

import pytest
import torch
from support.samples.solutions import make_tests, refuses, returns_nothing

from d2lmini.checks import pipeline as checks
from d2lmini.checks.pipeline.schedules import (
    most_live,
    reference_order,
    rounds_of_messages,
    stuck_or_length,
)
from d2lmini.checks.pipeline.stages import fastest
from d2lmini.checks.shared import time_limit

RIGHT, WRONG = {}, {}


def gpipe(rank, p, m, limit):
    return [(kind, i) for kind in ("forward", "backward") for i in range(m)]


def ahead_by(number):
    """Return a generator of 1F1B in which each stage begins with another number of passes."""

    def schedule(rank, p, m, limit):
        ahead = min(number(rank, p, limit), m)
        order = [("forward", i) for i in range(ahead)]
        for i in range(m):
            order += [("forward", i + ahead)] if i + ahead < m else []
            order.append(("backward", i))
        return order

    return schedule


def forgets_the_end(rank, p, m, limit):
    return reference_order(rank, p, m, limit)[:-1]


def backwards_first(rank, p, m, limit):
    return [(kind, i) for i in range(m) for kind in ("backward", "forward")]


def crossed(rank, p, m, limit):
    """Take the micro-batches in another order on the last stage."""
    order = reference_order(rank, p, m, limit)
    return [(kind, m - 1 - i) for kind, i in order] if rank == p - 1 else order


RIGHT["schedule"] = reference_order
WRONG["schedule"] = {
    "GPipe keeps all of them": gpipe,
    "rank 0 keeps 2 micro-batches, 1 are enough": ahead_by(
        lambda rank, p, limit: min(p - rank, limit)
    ),
    "rank 0 keeps 4 micro-batches, 2 are enough": ahead_by(lambda rank, p, limit: p - 1 - rank),
    "8 units are possible|as many forward passes ahead": ahead_by(lambda rank, p, limit: 0),
    "one forward and one backward pass": forgets_the_end,
    "comes before its forward pass": backwards_first,
    "deadlock": crossed,
    "schedule returned None": returns_nothing,
    "is not a pair": lambda rank, p, m, limit: ["forward", "backward"] * m,
}


@pytest.mark.parametrize(("p", "m"), [(2, 3), (4, 8), (5, 16)])
def test_1f1b_takes_the_time_and_memory_of_the_formulas(p, m):
    orders = [reference_order(rank, p, m, p) for rank in range(p)]
    assert stuck_or_length(orders)[0] == 3 * (m + p - 1)
    assert [most_live(order) for order in orders] == [min(p - i, m) for i in range(p)]


def slowest(costs, cuts):
    bounds = [0, *cuts, len(costs)]
    return max(sum(costs[a:b]) for a, b in itertools.pairwise(bounds))


def all_cuts_tried(costs, p):
    every = itertools.combinations(range(1, len(costs)), p - 1)
    return list(min(every, key=lambda cuts: slowest(costs, cuts)))


def filled_up_to(costs, p, limit):
    """Return cuts with stages of at most `limit`, or None if there are none."""
    cuts, filled = [], costs[0]
    for i, cost in enumerate(costs[1:], 1):
        must = len(costs) - i == p - 1 - len(cuts)
        if must or filled + cost > limit:
            cuts.append(i)
            filled = 0.0
        filled += cost
    return cuts if len(cuts) == p - 1 and slowest(costs, cuts) <= limit else None


def best_cut(costs, p):
    """Try every length that neighbouring layers can have together."""
    lengths = {sum(costs[a:b]) for a in range(len(costs)) for b in range(a + 1, len(costs) + 1)}
    return next(c for limit in sorted(lengths) if (c := filled_up_to(costs, p, limit + 1e-9)))


def filled_to_the_mean(costs, p):
    cuts, filled = [], 0.0
    for i, cost in enumerate(costs):
        room = len(costs) - i <= p - 1 - len(cuts)
        if i and len(cuts) < p - 1 and (filled + cost > sum(costs) / p or room):
            cuts.append(i)
            filled = 0.0
        filled += cost
    return cuts


RIGHT["cut"] = best_cut
WRONG["cut"] = {
    "equal numbers of layers": lambda costs, p: [len(costs) * i // p for i in range(1, p)],
    "filling one stage after the other": filled_to_the_mean,
    "leaves a stage empty": lambda costs, p: [0] * (p - 1),
    "returned [0-9] items": lambda costs, p: [0, *best_cut(costs, p)],
    "cut returned None": returns_nothing,
}


def test_cut_is_right_where_all_cuts_can_be_tried():
    generator = torch.Generator().manual_seed(0)
    for p in (2, 3, 5):
        costs = torch.rand(9, generator=generator).tolist()
        assert fastest(costs, p) == pytest.approx(slowest(costs, all_cuts_tried(costs, p)))


def test_cut_that_tries_everything_takes_too_long(monkeypatch):
    monkeypatch.setattr(time_limit, "SECONDS", 2)
    refuses(checks.check_cut, all_cuts_tried, "layers .99 of them.*not ended|not end")


def even_and_odd(rank, p):
    kinds = ("receive", "send") if rank % 2 else ("send", "receive")
    partners = (rank - 1, rank + 1) if rank % 2 else (rank + 1, rank - 1)
    return [(kind, other) for other in partners if 0 <= other < p for kind in kinds]


def all_send_first(rank, p):
    others = [o for o in (rank - 1, rank + 1) if 0 <= o < p]
    return [(kind, other) for kind in ("send", "receive") for other in others]


def one_after_the_other(rank, p):
    left = [("receive", rank - 1), ("send", rank - 1)] if rank else []
    return left + ([("send", rank + 1), ("receive", rank + 1)] if rank < p - 1 else [])


RIGHT["order_of"] = even_and_odd
WRONG["order_of"] = {
    "Both sides send first": all_send_first,
    "No rank can go on": lambda rank, p: all_send_first(rank, p)[::-1],
    "14 rounds|one rank after the other": one_after_the_other,
    "once": lambda rank, p: [c for c in all_send_first(rank, p) if c[0] == "send"],
    "order_of returned None": returns_nothing,
    "None is not a pair": lambda rank, p: [None, None],
    "is not a pair such as": lambda rank, p: torch.zeros(1),
    "a neighbour must be": lambda rank, p: [("send", "right")],
}


def test_even_and_odd_ranks_need_four_rounds():
    assert rounds_of_messages([even_and_odd(rank, 6) for rank in range(6)])[0] == 4


def finishes(sum_tied=True, once=True, per_stage=False):
    def finish(gradients, tied, max_norm):
        out = [list(stage) for stage in gradients]
        (a, i), (b, j) = tied
        if sum_tied:
            out[a][i] = out[b][j] = out[a][i] + out[b][j]
        squares = [sum((g**2).sum() for g in stage) for stage in out]
        total = sum(squares) - (once and sum_tied) * (out[a][i] ** 2).sum()
        norms = [s if per_stage else total for s in squares]
        return [
            [g * (max_norm / norm.sqrt()).clamp(max=1) for g in stage]
            for stage, norm in zip(out, norms, strict=True)
        ]

    return finish


RIGHT["finish"] = finishes()
WRONG["finish"] = {
    "are not summed": finishes(sum_tied=False),
    "counts twice in the norm": finishes(once=False),
    "each stage is clipped by its own norm": finishes(per_stage=True),
    "finish returned None": returns_nothing,
    "then clip all by one norm": lambda gradients, tied, max_norm: [
        [torch.zeros_like(g) for g in stage] for stage in gradients
    ],
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
