"""The checkers of the automatic-parallelism chapter accept right solutions and name wrong ones."""

from graphlib import TopologicalSorter

import pytest
import torch
from support.samples.solutions import make_tests, returns_nothing

from d2lmini import Stream, current_stream, sim
from d2lmini.checks import parallelism as checks

RIGHT, WRONG = {}, {}

# ---- independent products on several streams


def products_on_streams(x, count, num_streams, wait_first=True, wait_last=True):
    main, ys = current_stream(x.device), []
    streams = [Stream(x.device) for _ in range(num_streams)]
    for stream in streams if wait_first else ():
        stream.wait_stream(main)
    for i in range(count):
        with streams[i % num_streams]:
            ys.append(x @ x)
    for stream in streams if wait_last else ():
        main.wait_stream(stream)
    return ys


RIGHT["products_on_streams"] = products_on_streams
WRONG["products_on_streams"] = {
    "before x had arrived": lambda x, k, s: products_on_streams(x, k, s, wait_first=False),
    "before it was there": lambda x, k, s: products_on_streams(x, k, s, wait_last=False),
    "0 new streams": lambda x, k, s: [x @ x for _ in range(k)],
    "5 were returned": lambda x, k, s: products_on_streams(x, k, s)[:-1],
    "1 were launched": lambda x, k, s: products_on_streams(x, 1, s) * k,
    "product is wrong": lambda x, k, s: [y.T for y in products_on_streams(x, k, s)],
    "returned None": returns_nothing,
    "0 were returned": lambda x, k, s: [],
    "not on its device": lambda x, k, s: [y.cpu() for y in products_on_streams(x, k, s)],
    r"of shape \(64, 64\)": lambda x, k, s: [y[0] for y in products_on_streams(x, k, s)],
    "wrote into `x`": lambda x, k, s: products_on_streams(x.mul_(2), k, s),
}


# ---- small products at once


def square_all(xs):
    stacked = torch.stack(xs)
    return list((stacked @ stacked).unbind())


RIGHT["square_all"] = square_all
WRONG["square_all"] = {
    "40 launches": lambda xs: [x @ x for x in xs],
    "product is wrong": lambda xs: list(torch.stack(xs).square().unbind()),
    "39 products": lambda xs: square_all(xs)[1:],
    "square_all returned None": returns_nothing,
    "not on its device: it is on cpu": lambda xs: list(torch.stack(square_all(xs)).cpu().unbind()),
    "must be a tensor, but it is a list of 40": lambda xs: [square_all(xs)] * 40,
    "changed `xs`: it has 0 instead of 40": lambda xs: [xs.pop() for _ in list(xs)],
    "wrote into `xs`": lambda xs: [x.copy_(x) for x in xs[:1]] * 40,
}


# ---- GPU, copies and host at once


def mean_of_squares(xs, buffers, stream_for=Stream, wait="each", order=True, kept=99):
    side, main = stream_for(xs[0].device), current_stream(xs[0].device)
    copied, keep = [], []
    for x, buffer in zip(xs, buffers, strict=True):
        keep = [*keep[-kept:], x @ x]
        if order:
            side.wait_event(main.record_event())
        with side:
            buffer.copy_(keep[-1], non_blocking=True)
        copied.append(side.record_event())
    if wait == "all":
        copied[-1].synchronize()
    total = torch.zeros_like(buffers[0])
    for event, buffer in zip(copied, buffers, strict=True):
        if wait == "each":
            event.synchronize()
        total += buffer
    return total / len(xs)


def test_mean_of_squares_accepted_inside_a_check_of_races():
    with sim.check_races():
        checks.check_mean_of_squares(mean_of_squares)
        (device,) = sim.configure(1)
        x = torch.ones(2, 2, device=device)
        with Stream(device), pytest.raises(sim.RaceError):
            x + 1  # the outer block goes on looking


def on_device(xs, buffers):
    return sum(x @ x for x in xs).cpu() / len(xs)


def on_host(xs, buffers):
    hosts = [x.cpu() for x in xs]
    return sum(x @ x for x in hosts) / len(xs)


def blocking(xs, buffers):
    return sum((x @ x).cpu() for x in xs) / len(xs)


RIGHT["mean_of_squares"] = mean_of_squares
WRONG["mean_of_squares"] = {
    "NaN": lambda xs, b: mean_of_squares(xs, b, wait="none"),
    "hardly overlapped": (
        lambda xs, b: mean_of_squares(xs, b, wait="all"),
        lambda xs, b: mean_of_squares(xs, b, stream_for=current_stream),
        blocking,
    ),
    "RaceError.*should wait for stream 0": lambda xs, b: mean_of_squares(xs, b, order=False),
    "RaceError.*freed": lambda xs, b: mean_of_squares(xs, b, kept=1),
    "mean is wrong": lambda xs, b: mean_of_squares(xs, b) * len(xs),
    "return it on the host": lambda xs, b: mean_of_squares(xs, b).to(xs[0].device),
    "nothing was added on the host": on_device,
    "nothing was multiplied on the GPU": on_host,
    "must be a tensor, but it is None": returns_nothing,
    r"of shape \(64, 64\), but is a tensor of": lambda xs, b: mean_of_squares(xs, b).mean(),
    "changed `buffers`: it has 0": lambda xs, b: [mean_of_squares(xs, b), b.clear()][0],
    "wrote into `xs`": lambda xs, b: mean_of_squares([x.mul_(1) for x in xs], b),
}


# ---- reading a timeline


def overlap(timeline, one, other, clip=True):
    edges = []
    for lane in (one, other):
        for span in timeline.lanes().get(lane, ()):
            start, end = span.start, span.end
            if clip:
                start, end = max(start, timeline.start), min(end, timeline.end)
            edges += [(start, lane, 1), (end, lane, -1)]
    active, total, last = {one: 0, other: 0}, 0.0, 0.0
    for moment, lane, change in sorted(edges):
        if all(active.values()):
            total += moment - last
        active[lane] += change
        last = moment
    return total


def overlap_of_pairs(timeline, one, other):
    """Wrong: a moment counts once for every pair of spans."""
    lanes = timeline.lanes()
    return sum(
        max(0.0, min(a.end, b.end, timeline.end) - max(a.start, b.start, timeline.start))
        for a in lanes.get(one, ())
        for b in lanes.get(other, ())
    )


RIGHT["overlap"] = overlap
WRONG["overlap"] = {
    "overlap: 7 s": overlap_of_pairs,
    "a window that cuts spans": lambda t, a, b: overlap(t, a, b, clip=False),
    "side by side": lambda t, a, b: t.end - t.start,
    "must be a number, but it is None": returns_nothing,
    "overlap raised KeyError": lambda t, a, b: t.lanes()["compute"],
    "-2 s were found, 2 s are right": lambda t, a, b: -overlap(t, a, b),
}


# ---- graphs


def run_any_graph(
    graph, placement, work, wait=True, hand_over=True, stream_for=Stream, copy_in=None, order=None
):
    values, done = {}, {}
    ready = {d: current_stream(d).record_event() for d in set(placement.values())}
    for task in order(graph) if order else TopologicalSorter(graph).static_order():
        device = placement[task]
        stream = stream_for(device)
        for event in (ready[device], *[done[s] for s in graph[task] if wait]):
            stream.wait_event(event)
        with copy_in(device) if copy_in else stream:
            inputs = [values[s].to(device) for s in graph[task]]
        with stream:
            values[task] = work(task, inputs)
        done[task] = stream.record_event()
    for task, event in done.items() if hand_over else ():
        current_stream(placement[task]).wait_event(event)
    return values


def unnoticed_cycle(graph, placement, work):
    if set(graph) == {"a", "b"}:
        return {}
    return run_any_graph(graph, placement, work)


def no_copies(graph, placement, work):
    values = {}
    for task in TopologicalSorter(graph).static_order():
        values[task] = work(task, [values[s] for s in graph[task]])
    return values


def consuming(graph, placement, work):
    values = run_any_graph(graph, placement, work)
    graph.clear()
    return values


def swapped(graph, placement, work):
    values = run_any_graph(graph, placement, work)
    values["a"], values["d"] = values["d"], values["a"]
    return values


RIGHT["run_any_graph"] = run_any_graph
WRONG["run_any_graph"] = {
    "before its input": lambda *a: run_any_graph(*a, wait=False),
    "current stream of": lambda *a: run_any_graph(*a, hand_over=False),
    "more than its inputs": lambda *a: run_any_graph(*a, stream_for=current_stream),
    "the diamond: .*RaceError": lambda *a: run_any_graph(*a, copy_in=current_stream),
    "cycle was not refused": unnoticed_cycle,
    "cycle gave KeyError": lambda *a: run_any_graph(*a, order=sorted),
    "copy inputs to the task's device": no_copies,
    "no result for a": lambda graph, placement, work: {},
    "returned a list of 4; a dictionary of task: result": lambda *a: list(run_any_graph(*a)),
    "run_any_graph returned None": returns_nothing,
    "work.task, inputs. got None": lambda g, p, work: {t: work(t, None) for t in g},
    "b got 0 inputs, not 1": lambda g, p, work: {t: work(t, []) for t in g},
    "b, c, d never ran; call work": lambda g, p, work: dict.fromkeys(g, work("a", [])),
    "work was called for 'e', which is no task": lambda g, p, work: work("e", []),
    "not on its device": lambda *a: {t: y.cpu() for t, y in run_any_graph(*a).items()},
    "must be a tensor, but it is None": lambda *a: dict.fromkeys(run_any_graph(*a)),
    "changed `graph`: it has 0 instead of 4": consuming,
    "a has a wrong result": swapped,
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
