"""The checkers of the automatic-parallelism chapter accept right solutions and name wrong ones."""

from graphlib import TopologicalSorter

import pytest
import torch
from support.solutions import refuses, returns_nothing

from d2lmini import Stream, current_stream, sim
from d2lmini.checks import parallelism as checks

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


def test_products_on_streams_accepted(capsys):
    checks.check_products_on_streams(products_on_streams)
    assert capsys.readouterr().out == "products_on_streams: passed\n"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda x, k, s: products_on_streams(x, k, s, wait_first=False), "before x had arrived"),
        (lambda x, k, s: products_on_streams(x, k, s, wait_last=False), "before it was there"),
        (lambda x, k, s: [x @ x for _ in range(k)], "0 new streams"),
        (lambda x, k, s: products_on_streams(x, k, s)[:-1], "5 were returned"),
        (lambda x, k, s: products_on_streams(x, 1, s) * k, "1 were launched"),
        (lambda x, k, s: [y.T for y in products_on_streams(x, k, s)], "product is wrong"),
        (returns_nothing, "returned None"),
        (lambda x, k, s: [], "0 were returned"),
        (lambda x, k, s: [y.cpu() for y in products_on_streams(x, k, s)], "not on its device"),
        (lambda x, k, s: [y[0] for y in products_on_streams(x, k, s)], r"of shape \(64, 64\)"),
        (lambda x, k, s: products_on_streams(x.mul_(2), k, s), "wrote into `x`"),
    ],
)
def test_products_on_streams_rejected(wrong, reason):
    refuses(checks.check_products_on_streams, wrong, reason)


# ---- small products at once


def square_all(xs):
    stacked = torch.stack(xs)
    return list((stacked @ stacked).unbind())


def test_square_all_accepted():
    checks.check_square_all(square_all)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda xs: [x @ x for x in xs], "40 launches"),
        (lambda xs: list(torch.stack(xs).square().unbind()), "product is wrong"),
        (lambda xs: square_all(xs)[1:], "39 products"),
        (returns_nothing, "square_all returned None"),
        (
            lambda xs: list(torch.stack(square_all(xs)).cpu().unbind()),
            "not on its device: it is on cpu",
        ),
        (lambda xs: [square_all(xs)] * 40, "must be a tensor, but it is a list of 40"),
        (lambda xs: [xs.pop() for _ in list(xs)], "changed `xs`: it has 0 instead of 40"),
        (lambda xs: [x.copy_(x) for x in xs[:1]] * 40, "wrote into `xs`"),
    ],
)
def test_square_all_rejected(wrong, reason):
    refuses(checks.check_square_all, wrong, reason)


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


def test_mean_of_squares_accepted():
    checks.check_mean_of_squares(mean_of_squares)


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


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda xs, b: mean_of_squares(xs, b, wait="none"), "NaN"),
        (lambda xs, b: mean_of_squares(xs, b, wait="all"), "hardly overlapped"),
        (lambda xs, b: mean_of_squares(xs, b, stream_for=current_stream), "hardly overlapped"),
        (lambda xs, b: mean_of_squares(xs, b, order=False), "RaceError.*should wait for stream 0"),
        (lambda xs, b: mean_of_squares(xs, b, kept=1), "RaceError.*dropped"),
        (lambda xs, b: mean_of_squares(xs, b) * len(xs), "mean is wrong"),
        (lambda xs, b: mean_of_squares(xs, b).to(xs[0].device), "return it on the host"),
        (on_device, "nothing was added on the host"),
        (blocking, "hardly overlapped"),
        (on_host, "nothing was multiplied on the GPU"),
        (returns_nothing, "must be a tensor, but it is None"),
        (lambda xs, b: mean_of_squares(xs, b).mean(), r"of shape \(64, 64\), but is a tensor of"),
        (lambda xs, b: [mean_of_squares(xs, b), b.clear()][0], "changed `buffers`: it has 0"),
        (lambda xs, b: mean_of_squares([x.mul_(1) for x in xs], b), "wrote into `xs`"),
    ],
)
def test_mean_of_squares_rejected(wrong, reason):
    refuses(checks.check_mean_of_squares, wrong, reason)


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


def test_overlap_accepted():
    checks.check_overlap(overlap)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (overlap_of_pairs, "overlap: 7 s"),
        (lambda t, a, b: overlap(t, a, b, clip=False), "a window that cuts spans"),
        (lambda t, a, b: t.end - t.start, "side by side"),
        (returns_nothing, "must be a number, but it is None"),
        (lambda t, a, b: t.lanes()["compute"], "overlap raised KeyError"),
        (lambda t, a, b: -overlap(t, a, b), "-2 s were found, 2 s are right"),
    ],
)
def test_overlap_rejected(wrong, reason):
    refuses(checks.check_overlap, wrong, reason)


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


def test_run_any_graph_accepted():
    checks.check_run_any_graph(run_any_graph)


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


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda *a: run_any_graph(*a, wait=False), "before its input"),
        (lambda *a: run_any_graph(*a, hand_over=False), "current stream of"),
        (lambda *a: run_any_graph(*a, stream_for=current_stream), "more than its inputs"),
        (lambda *a: run_any_graph(*a, copy_in=current_stream), "the diamond: .*RaceError"),
        (unnoticed_cycle, "cycle was not refused"),
        (lambda *a: run_any_graph(*a, order=sorted), "cycle gave KeyError"),
        (no_copies, "copy inputs to the task's device"),
        (lambda graph, placement, work: {}, "no result for a"),
        (lambda *a: list(run_any_graph(*a)), "returned a list of 4; a dictionary of task: result"),
        (returns_nothing, "run_any_graph returned None"),
        (lambda g, p, work: {t: work(t, None) for t in g}, "work.task, inputs. got None"),
        (lambda g, p, work: {t: work(t, []) for t in g}, "b got 0 inputs, not 1"),
        (lambda g, p, work: dict.fromkeys(g, work("a", [])), "b, c, d never ran; call work"),
        (lambda g, p, work: work("e", []), "work was called for 'e', which is no task"),
        (lambda *a: {t: y.cpu() for t, y in run_any_graph(*a).items()}, "not on its device"),
        (lambda *a: dict.fromkeys(run_any_graph(*a)), "must be a tensor, but it is None"),
        (consuming, "changed `graph`: it has 0 instead of 4"),
    ],
)
def test_run_any_graph_rejected(wrong, reason):
    refuses(checks.check_run_any_graph, wrong, reason)


def test_run_any_graph_rejects_wrong_values():
    with pytest.raises(AssertionError):
        checks.check_run_any_graph(swapped)
