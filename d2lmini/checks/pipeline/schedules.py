"""Checkers of the order of passes in a stage, and of blocking messages."""

import itertools

from d2lmini.checks.shared.results import whole_number
from d2lmini.checks.shared.solution import checker

PIPELINES = ((1, 3, 2), (2, 4, 2), (4, 8, 4), (4, 8, 9), (4, 2, 4), (4, 8, 2), (3, 5, 1))


@checker("schedule(rank, p, m, limit)")
def check_schedule(schedule):
    """Check a function that returns the 1F1B schedule of a stage.

    Parameters
    ----------
    schedule : callable
        ``schedule(rank, p, m, limit)``, returning pairs of "forward" or "backward" and a
        micro-batch, with at most `limit` live micro-batches.

    Raises
    ------
    AssertionError
        If a pass is missing, the stages deadlock, keep too many micro-batches, or take longer than
        necessary.
    """
    for p, m, limit in PIPELINES:
        where = f"{p} stages, {m} micro-batches, limit {limit}"
        orders = [_order(schedule, rank, p, m, limit, where) for rank in range(p)]
        length, waiting = stuck_or_length(orders)
        assert length is not None, (
            f"{where}: deadlock; the stages wait before {waiting}. A stage can do a forward pass "
            "after the previous stage, a backward pass after the next one"
        )
        for rank, order in enumerate(orders):
            live, allowed = most_live(order), min(p - rank, m, limit)
            hint = "GPipe keeps all of them; " if live == m else ""
            assert live <= allowed, (
                f"{where}: rank {rank} keeps {live} micro-batches, {allowed} are enough; {hint}"
                "begin with one forward pass for each later stage, then alternate"
            )
        best, _ = stuck_or_length([reference_order(r, p, m, limit) for r in range(p)])
        assert length <= best, (
            f"{where}: the step takes {length} units, {best} are possible (forward 1, backward 2); "
            "let each stage do as many forward passes ahead as the limit allows"
        )
    print("schedule: passed")


def reference_order(stage, p, m, limit):
    """Return the 1F1B schedule of one stage with at most `limit` live micro-batches."""
    ahead = min(p - 1 - stage, m, limit - 1)
    order = [("forward", i) for i in range(ahead)]
    for i in range(m):
        order += [("forward", i + ahead)] if i + ahead < m else []
        order.append(("backward", i))
    return order


def _order(schedule, rank, p, m, limit, where):
    where = f"{where}, rank {rank}"
    given = schedule.at(where)
    order = given.items(given(rank, p, m, limit))
    for item in order:
        is_pair = isinstance(item, tuple | list) and len(item) == 2
        is_known = is_pair and item[0] in ("forward", "backward")
        assert is_known, f'{where}: {item!r} is not a pair such as ("forward", 0)'
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


def stuck_or_length(orders, forward=1, backward=2):
    """Simulate the stages' schedules together, with messages that take no time.

    Parameters
    ----------
    orders : list of list of (str, int)
        For each stage, pairs of "forward" or "backward" and the micro-batch.

    Returns
    -------
    tuple
        The time at which the last pass ends, or None for a deadlock; the next pair of each stage.
    """
    p, ends, clock = len(orders), {}, [0] * len(orders)
    places, moved = [0] * p, True
    while moved:
        moved = False
        for stage, order in enumerate(orders):
            while places[stage] < len(order):
                kind, i = order[places[stage]]
                ready = _ready(ends, kind, i, stage, p)
                if ready is None:
                    break
                clock[stage] = max(clock[stage], ready)
                clock[stage] += forward if kind == "forward" else backward
                ends[kind, i, stage] = clock[stage]
                places[stage], moved = places[stage] + 1, True
    waiting = [
        order[at] if at < len(order) else None for at, order in zip(places, orders, strict=True)
    ]
    return (max(clock) if not any(waiting) else None), waiting


def _ready(ends, kind, i, stage, p):
    """Return the time at which the input of a pass is ready, or None."""
    if kind == "forward":
        return ends.get((kind, i, stage - 1)) if stage else 0
    return ends.get((kind, i, stage + 1)) if stage < p - 1 else ends.get(("forward", i, stage))


def most_live(order):
    """Return the maximum number of micro-batches between their forward and backward pass."""
    live, most = 0, 0
    for kind, _ in order:
        live += 1 if kind == "forward" else -1
        most = max(most, live)
    return most


@checker("order_of(rank, p)")
def check_order_of(order_of):
    """Check the order of blocking messages between neighbouring ranks.

    Parameters
    ----------
    order_of : callable
        ``order_of(rank, p)``, returning pairs of "send" or "receive" and a neighbour.

    Raises
    ------
    AssertionError
        If a message is missing, the ranks deadlock, or need more than four rounds.
    """
    for p in (1, 2, 3, 4, 7, 8):
        orders = []
        for rank in range(p):
            where = f"rank {rank} of {p}"
            calls = _calls(order_of.at(where), rank, p, where)
            others = [o for o in (rank - 1, rank + 1) if 0 <= o < p]
            wanted = sorted(itertools.product(("send", "receive"), others))
            assert sorted(calls) == wanted, f"{where}: {calls}; each of {wanted} is needed, once"
            orders.append(calls)
        rounds, waiting = rounds_of_messages(orders)
        same = all(call is None or call[0] == "send" for call in waiting)
        hint = "Both sides send first, and neither receives" if same else "No rank can go on"
        assert rounds is not None, f"{p} ranks: deadlock, the next calls are {waiting}. {hint}"
        assert rounds <= 4, (
            f"{p} ranks: {rounds} rounds, four are enough: let all even ranks send to the right at "
            "once, not one rank after the other"
        )
    print("order_of: passed")


def _calls(given, rank, p, where):
    calls = given.items(given(rank, p))
    for call in calls:
        is_pair = isinstance(call, tuple | list) and len(call) == 2
        is_known = is_pair and call[0] in ("send", "receive")
        assert is_known, f'{where}: {call!r} is not a pair such as ("send", 0)'
    return [(kind, whole_number(other, f"{where}: a neighbour")) for kind, other in calls]


def rounds_of_messages(orders):
    """Match blocking messages; return the rounds, or None for a deadlock, and the next calls."""
    places, rounds, moved = [0] * len(orders), 0, True
    while moved:
        nexts = [
            order[at] if at < len(order) else None for at, order in zip(places, orders, strict=True)
        ]
        pairs = [
            (rank, call[1])
            for rank, call in enumerate(nexts)
            if call and call[0] == "send" and nexts[call[1]] == ("receive", rank)
        ]
        for rank, other in pairs:
            places[rank] += 1
            places[other] += 1
        moved = bool(pairs)
        rounds += moved
    return (rounds if not any(nexts) else None), nexts
