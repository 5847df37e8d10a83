"""Schedules of a pipeline: in which order each GPU works, and when."""

from __future__ import annotations

from dataclasses import dataclass

SCHEDULES = ("GPipe", "1F1B", "interleaved, v = 2", "interleaved, v = 4", "zero bubble")
UNIT = 4  # ticks of the forward pass of one micro-batch on one GPU


@dataclass(frozen=True)
class Pass:
    """One pass of one micro-batch: ``F``, ``B``, or the gradient of the weights alone, ``W``."""

    kind: str
    micro: int
    chunk: int
    rank: int
    start: int = 0
    end: int = 0


def virtual(schedule):
    """Return how many stages each GPU has."""
    return int(schedule[-1]) if schedule[-1] in "24" and "v =" in schedule else 1


def order(schedule, rank, p, m):
    """Return the forward and backward passes of a GPU, in order."""
    v = virtual(schedule)
    group = min(p, m)

    def work(kind, k):
        turn, place = divmod(k, group * v)
        chunk = place // group
        chunk = v - 1 - chunk if kind == "B" else chunk
        return Pass(kind, turn * group + place % group, chunk, rank)

    total = m * v
    if schedule == "GPipe":
        first = total
    elif v == 1:
        first = min(p - 1 - rank, total)
    else:
        first = min(2 * (p - 1 - rank) + (v - 1) * p, total)
    made = [work("F", k) for k in range(first)]
    for k in range(total):
        if first + k < total:
            made.append(work("F", first + k))
        made.append(work("B", k))
    return made


def ticks(kind, schedule):
    """Return how long a pass takes."""
    if schedule == "zero bubble":
        return UNIT
    return (UNIT if kind == "F" else 2 * UNIT) // virtual(schedule)


def run(schedule, p, m):
    """Return all passes of a step, with their times."""
    v, ends, passes = virtual(schedule), {}, []
    waiting = [order(schedule, rank, p, m) for rank in range(p)]
    weights, free = [[] for _ in range(p)], [0] * p

    def ready(work):
        stage = work.chunk * p + work.rank
        before = ("F", work.micro, stage - 1) if work.kind == "F" else ("B", work.micro, stage + 1)
        if work.kind == "B" and stage == v * p - 1:
            before = ("F", work.micro, stage)
        return 0 if work.kind == "F" and stage == 0 else ends.get(before, float("inf"))

    now, longest = 0, 4 * UNIT * p * m * p
    while any(waiting) or any(weights):
        for rank in range(p):
            if free[rank] > now:
                continue
            split = weights[rank]
            late = len(split) > rank or not waiting[rank] or ready(waiting[rank][0]) > now
            source = split if split and late else waiting[rank]
            if not source or (source is not split and ready(source[0]) > now):
                continue
            work = source.pop(0)
            free[rank] = now + ticks(work.kind, schedule)
            ends[work.kind, work.micro, work.chunk * p + rank] = free[rank]
            passes.append(Pass(work.kind, work.micro, work.chunk, rank, now, free[rank]))
            if schedule == "zero bubble" and work.kind == "B":
                split.append(Pass("W", work.micro, work.chunk, rank))
        now += 1
        if now > longest:
            raise ValueError(f"{schedule}, p = {p}: m = {m} is no multiple of p; take {p}")
    return passes


def bubble(passes):
    """Return the idle time of the GPUs, as a share of the step and of the ideal time."""
    p = 1 + max(work.rank for work in passes)
    step = p * max(work.end for work in passes)
    ideal = sum(work.end - work.start for work in passes)
    return (step - ideal) / step, (step - ideal) / ideal


def live(passes, rank, time):
    """Return how many passes a GPU has begun forward at a time, and not begun to finish."""
    last = "W" if any(work.kind == "W" for work in passes) else "B"
    begun = [work.kind for work in passes if work.rank == rank and work.start <= time]
    return begun.count("F") - begun.count(last)


def most_live(passes, rank):
    """Return how many it has at most."""
    return max(live(passes, rank, work.start) for work in passes if work.rank == rank)
