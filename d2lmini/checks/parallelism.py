"""Checkers for the exercises of the chapter on automatic parallelism.

They run a solution on simulated GPUs of their own, which are slow, so that the times of kernels
and copies stand out against those of launches, and read the trace: it says what waited for what.
"""

import math

import torch

import simgpu as sim
from d2lmini.checks._graph_run import GraphRun, random_graph
from d2lmini.checks._no_races import no_races
from d2lmini.checks._results import number, tensor
from d2lmini.checks._slow_machine import CPU, EPSILON, GPU, LINK, SIZE, close, matrices
from d2lmini.checks._solution import checker
from simgpu.clock.span import Span
from simgpu.timeline import Timeline


@checker("products_on_streams(x, count, num_streams)")
def check_products_on_streams(products_on_streams):
    """Check a function that spreads independent products over several streams.

    Parameters
    ----------
    products_on_streams : callable
        ``products_on_streams(x, count, num_streams)`` returning `count` products ``x @ x``.

    Raises
    ------
    AssertionError
        If a product is wrong, another number of streams is used, a stream does not wait for `x`, or
        the current stream does not wait for the results.

    Examples
    --------
    >>> check_products_on_streams(lambda x, k, streams: [x @ x] * k)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: 6 products on 3 streams: 1 were launched...
    """
    for count, num_streams in ((6, 3), (5, 2), (3, 1)):
        where = f"{count} products on {num_streams} streams"
        (device,) = sim.configure(1, gpu=GPU, link=LINK)
        host, buffer = sim.empty_pinned(SIZE, SIZE), sim.empty_pinned(SIZE, SIZE)
        host.copy_(matrices(1)[0])
        x = host.to(device, non_blocking=True)
        given = products_on_streams.at(where)
        ys = given.items(given(x, count, num_streams))
        assert len(ys) == count, f"{where}: {len(ys)} were returned"
        for y in ys:
            tensor(y, f"{where}: a product that is returned", x.shape, device)
        buffer.copy_(ys[-1], non_blocking=True)
        sim.synchronize()
        upload, *kernels, download = _of_device(sim.trace())
        kernels = [span for span in kernels if span.flops]
        assert len(kernels) == count, f"{where}: {len(kernels)} were launched"
        used = len({span.stream for span in kernels} - {0})
        assert used == num_streams, f"{where}: {used} new streams were used"
        assert min(span.start for span in kernels) >= upload.end - EPSILON, (
            f"{where}: a product started before x had arrived; let each new stream wait for the "
            "current one first: stream.wait_stream(main)"
        )
        assert download.start >= max(span.end for span in kernels) - EPSILON, (
            f"{where}: the current stream used a result before it was there; let it wait for the "
            "new streams at the end: main.wait_stream(stream)"
        )
        assert all(close(y.cpu(), host @ host) for y in ys), f"{where}: a product is wrong"
    print("products_on_streams: passed")


def _of_device(spans):
    return [span for span in spans if span.device != "host"]


@checker("square_all(xs)")
def check_square_all(square_all):
    """Check a function that multiplies many small matrices by themselves in a few launches.

    Parameters
    ----------
    square_all : callable
        ``square_all(xs)`` returning the list of products ``x @ x`` of the matrices in `xs`.

    Raises
    ------
    AssertionError
        If a product is wrong, or the number of launches grows with the number of matrices.

    Examples
    --------
    >>> check_square_all(lambda xs: [x @ x for x in xs])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: 40 matrices took 40 launches; put them into one tensor and multiply once...
    """
    for count, size in ((40, 16), (80, 8)):
        (device,) = sim.configure(1)
        generator = torch.Generator().manual_seed(count)
        host = torch.randn(count, size, size, generator=generator)
        xs = list(host.to(device).unbind())
        sim.synchronize()
        before = len(sim.trace())
        given = square_all.at(f"{count} matrices of {size} x {size}")
        ys = given.items(given(xs))
        launches = sum(span.engine == "launch" for span in sim.trace()[before:])
        assert len(ys) == count, f"{count} matrices gave {len(ys)} products"
        assert launches <= 8, (
            f"{count} matrices took {launches} launches; put them into one tensor and multiply once"
        )
        for y in ys:
            tensor(y, "a product that square_all returns", (size, size), device)
        right = all(close(y.cpu(), x @ x) for x, y in zip(host, ys, strict=True))
        assert right, f"{count} matrices of {size} x {size}: a product is wrong"
    print("square_all: passed")


@checker("mean_of_squares(xs, buffers)", may_change=["buffers"])
def check_mean_of_squares(mean_of_squares):
    """Check a function that multiplies on the GPU, copies, and averages on the host, overlapped.

    Parameters
    ----------
    mean_of_squares : callable
        ``mean_of_squares(xs, buffers)`` returning the mean of the products ``x @ x`` as a host
        tensor; `buffers` are as many pinned tensors.

    Raises
    ------
    AssertionError
        If the mean is wrong (NaN: a buffer was read too early), the parts do not overlap, or two
        streams race, because one does not wait or because a product is dropped too early.

    Examples
    --------
    >>> def mean_of_squares(xs, buffers):
    ...     return sum(x @ x for x in xs).cpu() / len(xs)
    >>> check_mean_of_squares(mean_of_squares)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: nothing was added on the host; copy every product and add it there...
    """
    count = 10
    host = matrices(count)
    xs, buffers = _matrices_and_buffers(host)
    before = len(sim.trace())
    with sim.host_ops(CPU):
        mean = mean_of_squares(xs, buffers)
    spans = sim.trace()[before:]
    tensor(mean, "what mean_of_squares returns", (SIZE, SIZE))
    assert mean.device.type == "cpu", f"the mean is on {mean.device}; return it on the host"
    assert not mean.isnan().any(), (
        "the mean holds NaN: a buffer was read before its copy had arrived; wait for the event of "
        "that copy first: event.synchronize()"
    )
    assert close(mean, (host @ host).mean(0)), "the mean is wrong"
    products = sum(span.engine == "compute" and span.flops > 0 for span in spans)
    assert products, "nothing was multiplied on the GPU; compute x @ x where x is"
    assert _busy(spans, "cpu") > 0.5 * count * 3 * host[0].nbytes / 1e8, (
        "nothing was added on the host; copy every product and add it there"
    )
    _require_overlap(spans, ("compute", "d2h"))
    _require_overlap(spans, ("compute", "d2h", "cpu"))
    arguments = _matrices_and_buffers(host)
    with no_races():
        mean_of_squares(*arguments)
    print("mean_of_squares: passed")


def _matrices_and_buffers(host):
    """Return matrices on a fresh machine, and pinned buffers for as many products."""
    (device,) = sim.configure(1, gpu=GPU, link=LINK)
    xs = list(host.to(device).unbind())
    buffers = [sim.empty_pinned(SIZE, SIZE) for _ in xs]
    sim.synchronize()
    return xs, buffers


def _busy(spans, engine):
    return sum(span.duration for span in spans if span.engine == engine)


def _require_overlap(spans, engines):
    """Refuse spans of some engines that take nearly as long as one after the other."""
    busy = {engine: _busy(spans, engine) for engine in engines}
    start = min(span.start for span in spans if span.engine in engines)
    elapsed = max(span.end for span in spans if span.engine in engines) - start
    longest, total = max(busy.values()), sum(busy.values())
    names = {"compute": "multiplying", "d2h": "copying", "cpu": "adding"}
    parts = ", ".join(f"{names[engine]} {1e3 * busy[engine]:.1f}" for engine in engines)
    assert elapsed <= longest + 0.4 * (total - longest), (
        f"{parts}: all together took {1e3 * elapsed:.1f} ms, so they hardly overlapped; copy in a "
        "side stream, and wait for one copy at a time before you add it"
    )


@checker("overlap(timeline, one, other)")
def check_overlap(overlap):
    """Check a function that measures how long two lanes of a timeline are busy together.

    Parameters
    ----------
    overlap : callable
        ``overlap(timeline, one, other)`` in seconds; lanes are (device, engine).

    Raises
    ------
    AssertionError
        If it counts a moment twice, or counts what is outside the window, or misses a part.

    Examples
    --------
    >>> check_overlap(lambda timeline, one, other: 0.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: two spans side by side: 0 s were found, 2 s are right...
    """
    lanes = (("sim:0", "compute"), ("sim:0", "d2h"))
    cases = (
        ("two spans side by side", [(0, 3)], [(1, 3)], (0, 3), 2),
        ("one after the other", [(0, 2)], [(2, 4)], (0, 4), 0),
        ("spans of one lane that overlap", [(0, 3), (1, 3)], [(0, 2), (1, 4)], (0, 4), 3),
        ("one span beside several", [(0, 9)], [(1, 2), (3, 4), (8, 10)], (0, 10), 3),
        ("a window that cuts spans", [(0, 6)], [(1, 9)], (2, 4), 2),
        ("a lane without spans", [(0, 4)], [], (0, 4), 0),
    )
    for name, first, second, window, wanted in cases:
        spans = [
            Span(*lane, 0, "mm", start, end - start)
            for lane, pairs in zip(lanes, (first, second), strict=True)
            for start, end in pairs
        ]
        timeline = Timeline(spans, *window)
        for one, other in (lanes, lanes[::-1]):
            got = overlap.at(name)(timeline, one, other)
            got = number(got, f"{name}: what overlap returns")
            assert math.isclose(got, wanted, abs_tol=1e-9), (
                f"{name}: {got:.4g} s were found, {wanted} s are right"
            )
    print("overlap: passed")


@checker("run_any_graph(graph, placement, work)")
def check_run_any_graph(run_any_graph):
    """Check a function that runs a graph of tasks on several devices.

    Parameters
    ----------
    run_any_graph : callable
        ``run_any_graph(graph, placement, work)`` returning the results of all tasks. `graph` maps
        tasks to their inputs, `placement` maps them to devices, and ``work(task, inputs)`` launches
        one and returns its result.

    Raises
    ------
    AssertionError
        If a result is wrong or missing, a task starts before its inputs are ready, the current
        streams do not wait for the results, tasks wait without need, streams race, or a cycle goes
        unnoticed.

    Examples
    --------
    >>> check_run_any_graph(lambda graph, placement, work: {})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: the diamond: no result for a, b, c, d...
    """
    diamond = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    run = GraphRun("the diamond", diamond, {"a": 0, "b": 0, "c": 1, "d": 0}, long=("b", "c"))
    run.check(run_any_graph)
    run.check_speed()
    run.check_races(run_any_graph)
    for seed in range(12):
        run = GraphRun(f"random graph {seed}", *random_graph(seed))
        run.check(run_any_graph)
        run.check_races(run_any_graph)
    devices = sim.configure(2, gpu=GPU, link=LINK)
    try:
        run_any_graph(
            {"a": ("b",), "b": ("a",)},
            {"a": devices[0], "b": devices[1]},
            lambda task, inputs: sum(inputs) if inputs else torch.ones(2, device=devices[0]),
        )
    except AssertionError as error:
        if isinstance(error.__cause__, ValueError):
            print("run_any_graph: passed")
        else:
            said = repr(error.__cause__ or error)
            raise AssertionError(
                f"a graph with a cycle gave {said}; raise a ValueError that says so"
            ) from error.__cause__
    else:
        raise AssertionError("a graph with a cycle was not refused; raise a ValueError")
