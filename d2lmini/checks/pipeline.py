"""Checkers for the exercises of the chapter on pipeline parallelism."""

import itertools

from d2lmini.checks._pipeline_gradients import check_accumulate, check_finish
from d2lmini.checks._pipeline_norms import check_for_pipeline
from d2lmini.checks._pipeline_run import most_live, rounds_of_messages, stuck_or_length
from d2lmini.checks._results import whole_number
from d2lmini.checks._solution import checker

__all__ = [
    "check_accumulate",
    "check_best_virtual",
    "check_cut",
    "check_finish",
    "check_for_pipeline",
    "check_order_of",
    "check_schedule",
]

PIPELINES = ((1, 3, 2), (2, 4, 2), (4, 8, 4), (4, 8, 9), (4, 2, 4), (4, 8, 2), (3, 5, 1))


def reference_order(stage, p, m, limit):
    """Return the order of 1F1B for one stage with at most `limit` live micro-batches."""
    ahead = min(p - 1 - stage, m, limit - 1)
    order = [("forward", i) for i in range(ahead)]
    for i in range(m):
        order += [("forward", i + ahead)] if i + ahead < m else []
        order.append(("backward", i))
    return order


@checker("schedule(rank, p, m, limit)")
def check_schedule(schedule):
    """Check a generator of the order of 1F1B.

    Parameters
    ----------
    schedule : callable
        ``schedule(rank, p, m, limit)``, returning pairs of "forward" or "backward" and a
        micro-batch, with at most `limit` live micro-batches.

    Raises
    ------
    AssertionError
        If a pass is missing, the stages hang, keep too much, or take longer than need be.
    """
    for p, m, limit in PIPELINES:
        where = f"{p} stages, {m} micro-batches, limit {limit}"
        orders = [_order(schedule, rank, p, m, limit, where) for rank in range(p)]
        length, waiting = stuck_or_length(orders)
        assert length is not None, (
            f"{where}: deadlock; the stages wait before {waiting}. A stage can do a forward pass "
            "after the stage before, a backward pass after the one behind"
        )
        for rank, order in enumerate(orders):
            live, allowed = most_live(order), min(p - rank, m, limit)
            hint = "GPipe keeps all of them; " if live == m else ""
            assert live <= allowed, (
                f"{where}: rank {rank} keeps {live} micro-batches, {allowed} are enough; {hint}"
                "begin with one forward pass for each stage behind, then take turns"
            )
        best, _ = stuck_or_length([reference_order(r, p, m, limit) for r in range(p)])
        assert length <= best, (
            f"{where}: the step takes {length} units, {best} are possible (forward 1, backward 2); "
            "let each stage do as many forward passes ahead as the limit allows"
        )
    print("schedule: passed")


def _order(schedule, rank, p, m, limit, where):
    where = f"{where}, rank {rank}"
    given = schedule.at(where)
    order = given.items(given(rank, p, m, limit))
    for item in order:
        is_pair = isinstance(item, tuple | list) and len(item) == 2
        is_known = is_pair and item[0] in ("forward", "backward")
        assert is_known, f'{where}: {item!r} is no pair such as ("forward", 0)'
    order = [(kind, whole_number(i, f"{where}: a micro-batch")) for kind, i in order]
    wanted = sorted(itertools.product(("forward", "backward"), range(m)))
    assert sorted(order) == wanted, (
        f"{where}: {len(order)} passes; each of the {m} micro-batches needs one forward and one "
        "backward pass (are those at the end missing?)"
    )
    for i in range(m):
        assert order.index(("forward", i)) < order.index(("backward", i)), (
            f"{where}: the backward pass of micro-batch {i} comes before its forward pass"
        )
    return order


LAYERS = (
    ([1.0, 1.0, 1.0, 1.0], 2),
    ([2.0, 3.0, 4.0, 5.0, 6.0, 1.0, 1.0], 3),
    ([0.2] + [1.0] * 16 + [3.0], 4),
    ([5.0, 1.0, 1.0, 1.0, 1.0], 3),
    ([1.0, 9.0, 1.0], 3),
    ([1.0, 2.0, 9.0, 2.0, 2.0], 4),
    ([0.5] + [1.0, 2.0, 1.5] * 32 + [1.0, 1.0, 6.0], 16),  # too long to try all cuts
)


@checker("cut(costs, p)")
def check_cut(cut):
    """Check a function that cuts layers into stages.

    Parameters
    ----------
    cut : callable
        ``cut(costs, p)``, returning the ``p - 1`` indices at which stages 1, 2, ... begin.

    Raises
    ------
    AssertionError
        If that is no cut into `p` stages, or another one has a faster slowest stage.
    """
    for costs, p in LAYERS:
        layers = costs if len(costs) < 20 else f"({len(costs)} of them)"
        where = f"layers {layers} on {p} stages"
        given = cut.at(where)
        cuts = given.items(given(list(costs), p), p - 1)
        cuts = [whole_number(c, f"{where}: an index that cut returns") for c in cuts]
        bounds = [0, *cuts, len(costs)]
        assert all(a < b for a, b in itertools.pairwise(bounds)), (
            f"{where}: {cuts} leaves a stage empty or is not in order"
        )
        best = _fastest(costs, p)
        got = _slowest(costs, cuts)
        sizes = [b - a for a, b in itertools.pairwise(bounds)]
        hint = (
            "equal numbers of layers are not equal costs"
            if max(sizes) - min(sizes) <= 1
            else "filling one stage after the other to the mean can leave too much for the last"
        )
        assert got <= best + 1e-9, (
            f"{where}: with cuts {cuts} the slowest stage takes {got:g}, {best:g} is possible; "
            f"{hint}"
        )
    print("cut: passed")


def _fastest(costs, p):
    """Return how fast the slowest of `p` stages can be."""
    sums = [0.0, *itertools.accumulate(costs)]
    best = {0: 0.0}  # layers used: the slowest stage
    for stage in range(1, p + 1):
        best = {
            end: min(max(slow, sums[end] - sums[at]) for at, slow in best.items() if at < end)
            for end in range(stage, len(costs) + 1)
        }
    return best[len(costs)]


def _slowest(costs, cuts):
    bounds = [0, *cuts, len(costs)]
    return max(sum(costs[a:b]) for a, b in itertools.pairwise(bounds))


VIRTUAL = (
    (4, 8, 20e-3, 1e-5, 4),
    (4, 8, 20e-3, 2e-3, 4),
    (4, 8, 20e-3, 0.2e-3, 6),
    (8, 64, 20e-3, 0.2e-3, 8),
    (8, 8, 20e-3, 0.1e-3, 12),
    (1, 8, 20e-3, 0.0, 4),
)


@checker("best_virtual(p, m, t, c, num_layers)")
def check_best_virtual(best_virtual):
    """Check a function that chooses the number of virtual stages.

    Parameters
    ----------
    best_virtual : callable
        ``best_virtual(p, m, t, c, num_layers)``, returning the divisor `v` of `num_layers` with
        the smallest ``(m + (p - 1) / v) * t + 2 * m * v * c``.

    Raises
    ------
    AssertionError
        If it is another number.
    """
    for p, m, t, c, num_layers in VIRTUAL:
        where = f"p={p}, m={m}, t={t}, c={c}, num_layers={num_layers}"
        seconds = {
            v: (m + (p - 1) / v) * t + 2 * m * v * c
            for v in range(1, num_layers + 1)
            if num_layers % v == 0
        }
        got = whole_number(best_virtual.at(where)(p, m, t, c, num_layers), f"{where}: the result")
        assert got in seconds, (
            f"{where}: {got} does not divide the {num_layers} layers of a GPU; only {[*seconds]} do"
        )
        best = min(seconds, key=seconds.get)
        hint = "the messages cost time, too" if got > best else "the bubble shrinks with v"
        assert got == best, (
            f"{where}: v = {got} takes {seconds[got]:.4g} s, v = {best} {seconds[best]:.4g} s; "
            f"{hint} (of equal ones, take the smallest)"
        )
    print("best_virtual: passed")


def _calls(given, rank, p, where):
    calls = given.items(given(rank, p))
    for call in calls:
        is_pair = isinstance(call, tuple | list) and len(call) == 2
        is_known = is_pair and call[0] in ("send", "receive")
        assert is_known, f'{where}: {call!r} is no pair such as ("send", 0)'
    return [(kind, whole_number(other, f"{where}: a neighbour")) for kind, other in calls]


@checker("order_of(rank, p)")
def check_order_of(order_of):
    """Check the order of blocking messages between neighbours in a row.

    Parameters
    ----------
    order_of : callable
        ``order_of(rank, p)``, returning pairs of "send" or "receive" and a neighbour.

    Raises
    ------
    AssertionError
        If a message is missing, the ranks hang, or need more than four rounds.
    """
    for p in (1, 2, 3, 4, 7, 8):
        orders = []
        for rank in range(p):
            where = f"rank {rank} of {p}"
            calls = _calls(order_of.at(where), rank, p, where)
            others = [o for o in (rank - 1, rank + 1) if 0 <= o < p]
            wanted = sorted(itertools.product(("send", "receive"), others))
            assert sorted(calls) == wanted, f"{where}: {calls}; needed is each of {wanted}, once"
            orders.append(calls)
        rounds, waiting = rounds_of_messages(orders)
        same = all(call is None or call[0] == "send" for call in waiting)
        hint = "Both sides send first, and nobody receives" if same else "Nobody can go on"
        assert rounds is not None, f"{p} ranks: deadlock, the next calls are {waiting}. {hint}"
        assert rounds <= 4, (
            f"{p} ranks: {rounds} rounds, four are enough: let all even ranks send to the right at "
            "once, not one rank after the other"
        )
    print("order_of: passed")
