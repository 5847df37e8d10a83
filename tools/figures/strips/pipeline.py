"""A pipeline's step: who works on which micro-batch, and how many are live."""

from __future__ import annotations

from tools.figures.strips.film import EMPTY, PASSED, TEXT, Film, runs
from tools.figures.strips.labels import LABELS
from tools.figures.strips.schedules import UNIT, bubble, live, most_live, run, virtual
from tools.words import chain, fill, say

SKY = PASSED  # the pale colours of the GPUs stand behind the full ones
LOOKS = {"F": SKY, "B": 3, "W": 1}
WORDS = {
    "F": say("GPU {rank}: forward {n}"),
    "B": say("GPU {rank}: backward {n}"),
    "W": say("GPU {rank}: gradient of the weights {n}"),
}
LEFT, RIGHT, TOP, ROW = 56, 358, 40, 36


def film(schedule, p, m):
    """Return the film of a schedule on p GPUs with m micro-batches."""
    made, passes = Film(TOP + ROW * p + 74), run(schedule, p, m)
    end = max(work.end for work in passes)
    scale = (RIGHT - LEFT) / end
    times = sorted({work.start for work in passes})
    made.text(LEFT, 16, say("time, number: micro-batch"), "start")
    made.text(436, 16, say("live"), "end")
    for rank in range(p):
        made.text(6, TOP + ROW * rank + 15, f"GPU {rank}", "start")
        made.box(LEFT, TOP + ROW * rank, RIGHT - LEFT, 30, EMPTY)
    for work in passes:
        x, y, wide = LEFT + scale * work.start, TOP + ROW * work.rank, work.end - work.start
        colour = LOOKS[work.kind] + (2 if work.chunk % 2 and work.kind == "F" else 0)
        label = work.micro if scale * wide >= 9 else ""
        gap = min(1, 0.15 * scale * wide)
        made.box(x, y, scale * wide - gap, 30, colour, label, times.index(work.start))
    for time in times:
        made.says.append(_words(passes, p, time))
    _live(made, passes, p, times)
    _legend(made, passes, schedule, p, m)
    return made


def _words(passes, p, time):
    now = [work for work in passes if work.start <= time < work.end]
    now = sorted(now, key=lambda work: work.rank)
    did = [fill(WORDS[w.kind], {"rank": w.rank, "n": w.micro}) for w in now]
    idle = p - len({work.rank for work in now})
    held = ", ".join(str(live(passes, rank, time)) for rank in range(p))
    return say(
        "At {time} forward passes. {did}; {idle} idle. Live: {held}.",
        time=f"{time / UNIT:g}",
        did=chain(did, say("{before}; {item}")),
        idle=idle,
        held=held,
    )


def _live(made, passes, p, times):
    for rank in range(p):
        counts = [live(passes, rank, time) for time in times]
        most = [max(counts[: i + 1]) for i in range(len(times))]
        pairs = zip(counts, most, strict=True)
        texts = [say("{now}, most {top}", now=now, top=top) for now, top in pairs]
        for since, until, text in runs(texts):
            made.text(436, TOP + ROW * rank + 15, text, "end", TEXT, since, until)
        assert most[-1] == most_live(passes, rank)


def _legend(made, passes, schedule, p, m):
    y = TOP + ROW * p + 10
    of_step, of_ideal = bubble(passes)
    kinds = {"F": say("forward"), "B": say("backward")}
    if schedule == "zero bubble":
        kinds = {"F": say("forward"), "B": say("input grad"), "W": say("weight grad")}
    for i, (kind, name) in enumerate(kinds.items()):
        made.box(LEFT + 125 * i, y - 6, 14, 12, LOOKS[kind])
        made.text(LEFT + 125 * i + 20, y, name, "start")
    told = say(
        "bubble: {step} of the step, {ideal} of the ideal time",
        step=f"{of_step:.0%}",
        ideal=f"{of_ideal:.0%}",
    )
    made.text(6, y + 24, told, "start")
    values = {"schedule": LABELS.get(schedule, schedule), "p": p, "m": m, "v": virtual(schedule)}
    if values["v"] == 1:
        told = say("{schedule}, p = {p}, m = {m}; live: micro-batches", **values)
    else:
        told = say("{schedule}, p = {p}, m = {m}; live: parts of 1/{v} stage", **values)
    made.text(6, y + 46, told, "start")
