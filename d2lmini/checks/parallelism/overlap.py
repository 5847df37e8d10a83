"""Checkers of overlapping work, and of measuring overlap on a timeline."""

import math

import simgpu as sim
from d2lmini.checks.shared.results import number, tensor
from d2lmini.checks.shared.slow_machine import CPU, GPU, LINK, SIZE, close, matrices
from d2lmini.checks.shared.solution import checker
from simgpu.timeline import Timeline


@checker("mean_of_squares(xs, buffers)", may_change=["buffers"])
def check_mean_of_squares(mean_of_squares):
    """Check a function that overlaps products on the GPU, copies, and averaging on the host.

    Parameters
    ----------
    mean_of_squares : callable
        ``mean_of_squares(xs, buffers)`` returning the mean of the products ``x @ x`` as a host
        tensor; `buffers` has a pinned tensor for each of `xs`.

    Raises
    ------
    AssertionError
        If the mean is wrong (NaN: a buffer was read too early), the parts do not overlap, or two
        streams race because one does not wait or a product is freed too early.

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
    with sim.check_races(nested=True):
        mean_of_squares(*arguments)
    print("mean_of_squares: passed")


def _matrices_and_buffers(host):
    """Return matrices on a new machine, and as many pinned buffers."""
    (device,) = sim.configure(1, gpu=GPU, link=LINK)
    xs = list(host.to(device).unbind())
    buffers = [sim.empty_pinned(SIZE, SIZE) for _ in xs]
    sim.synchronize()
    return xs, buffers


def _busy(spans, engine):
    return sum(span.duration for span in spans if span.engine == engine)


def _require_overlap(spans, engines):
    """Raise AssertionError if the spans of some engines hardly overlap."""
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
        ``overlap(timeline, one, other)``, returning seconds; `one` and `other` are (device,
        engine).

    Raises
    ------
    AssertionError
        If it counts a time twice, counts time outside the window, or misses some.

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
            sim.Span(*lane, 0, "mm", start, end - start)
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
