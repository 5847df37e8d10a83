"""Run orders of pipeline stages and of blocking messages: what is live, how long, who hangs."""


def stuck_or_length(orders, forward=1, backward=2):
    """Run the stages' orders against each other, with messages that take no time.

    Parameters
    ----------
    orders : list of list of (str, int)
        For each stage, pairs of "forward" or "backward" and the micro-batch.

    Returns
    -------
    tuple
        The time of the last end, or None if the stages hang, and the next pair of each stage.
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
    """Return when the input of a pass is there, or None."""
    if kind == "forward":
        return ends.get((kind, i, stage - 1)) if stage else 0
    return ends.get((kind, i, stage + 1)) if stage < p - 1 else ends.get(("forward", i, stage))


def most_live(order):
    """Return the largest number of micro-batches between their forward and backward pass."""
    live, most = 0, 0
    for kind, _ in order:
        live += 1 if kind == "forward" else -1
        most = max(most, live)
    return most


def rounds_of_messages(orders):
    """Match blocking messages; return the number of rounds, or None if they hang, and who waits."""
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
