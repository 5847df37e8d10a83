"""Checkers for the exercises of the chapter on overlap and scaling."""

import math

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import simgpu as sim
from d2lmini.checks import _slow_machine
from d2lmini.checks._buckets import buckets_of, explain_buckets, explain_exposed, exposed
from d2lmini.checks._results import number
from d2lmini.checks._solution import checker

SHARES = (32, 64, 128, 256)

# Seconds that a step has besides its images, seconds per image, seconds of communication per
# additional GPU; how many GPUs, and how many times as fast as one they shall be.
JOBS = (
    (1e-3, 1e-4, 1e-4, 8, 7),
    (1e-3, 1e-4, 1e-3, 4, 3),
    (1e-3, 1e-4, 1e-3, 8, 7),
    (1e-3, 1e-4, 1e-2, 8, 7),
    (5e-3, 1e-4, 1e-3, 2, 1.8),
)


@checker("smallest_share(step_seconds, shares, k, wanted)")
def check_smallest_share(smallest_share):
    """Check a function that finds the smallest share for which k GPUs scale well.

    Parameters
    ----------
    smallest_share : callable
        ``smallest_share(step_seconds, shares, k, wanted)``: ``step_seconds(k, n)`` are the seconds
        of a step of k GPUs with n images each; the smallest n of `shares` with which k GPUs do at
        least `wanted` times as many images a second as one GPU with the same share; None if there
        is none.

    Raises
    ------
    AssertionError
        If it finds another one; the message names the usual mistakes.
    """
    for fixed, each, communication, k, wanted in JOBS:

        def step_seconds(k, n, fixed=fixed, each=each, communication=communication):
            return fixed + n * each + (k - 1) * communication

        for shares in (SHARES, SHARES[::-1]):
            right = smallest_where(step_seconds, shares, k, wanted)
            where = f"shares of {list(shares)}, {wanted} times as fast on {k} GPUs"
            got = smallest_share.at(where)(step_seconds, list(shares), k, wanted)
            if got is not None:
                got = number(got, f"{where}: what smallest_share returns")
            if got != right:
                hint = _explain_share(step_seconds, shares, k, wanted, got)
                raise AssertionError(f"{where}: it is {right}, not {got}. {hint}")
    print("smallest_share: passed")


def smallest_where(step_seconds, shares, k, wanted):
    """Return the right answer; see `check_smallest_share`."""
    enough = (n for n in shares if k * step_seconds(1, n) / step_seconds(k, n) >= wanted)
    return min(enough, default=None)


def _explain_share(step_seconds, shares, k, wanted, got):
    enough = [n for n in shares if k * step_seconds(1, n) >= wanted * step_seconds(k, n)]
    if got is None and not any(step_seconds(1, n) >= wanted * step_seconds(k, n) for n in shares):
        return (
            "A step of k GPUs is never shorter than one GPU's with the same share. It does k times "
            "as many images: compare images per second"
        )
    strong = [n for n in shares if step_seconds(1, k * n) >= wanted * step_seconds(k, n)]
    if got == min(strong, default=None):
        return "Compare with one GPU that has the same share, not with one that has all the images"
    if got in enough:
        return "That is enough, but a smaller share is, too"
    return "k GPUs with n images each do k n images in a step; divide by its seconds"


# Bytes of gradients in the order of the parameters, the first bucket's limit, the others'.
GRADIENTS = (
    ([3, 5, 4, 6, 2], 1, 9),
    ([3, 5, 4, 6, 2], 8, 8),
    ([1, 1, 1, 1, 1, 1, 1], 2, 3),
    ([7, 2, 9, 30], 1, 100),
    ([40, 40, 40, 1], 1, 25),
)


@checker("make_buckets(sizes, first_cap, cap)")
def check_make_buckets(make_buckets):
    """Check a function that joins gradients in buckets, as DDP does from the second step on.

    Gradients become ready in the reverse order of the parameters. A bucket is closed by the
    gradient with which it reaches its limit; what remains at the end is a bucket as well.

    Parameters
    ----------
    make_buckets : callable
        ``make_buckets(sizes, first_cap, cap)``: the bytes of the gradients in the order of the
        parameters, the limit of the first bucket that is sent and that of all others; returning
        the bytes of the buckets in the order in which they are sent.

    Raises
    ------
    AssertionError
        If DDP's buckets are others; the message names the usual mistakes.
    """
    for sizes, first_cap, cap in GRADIENTS:
        right = buckets_of(sizes, first_cap, cap)
        where = f"gradients of {sizes} bytes, limits {first_cap} and {cap}"
        given = make_buckets.at(where)
        what = f"{where}: the bytes of a bucket of make_buckets"
        got = [number(size, what) for size in given.items(given(list(sizes), first_cap, cap))]
        if got != right:
            hint = explain_buckets(sizes, first_cap, cap, got)
            raise AssertionError(f"{where}: the buckets are {right}, not {got}. {hint}")
    print("make_buckets: passed")


# (seconds at which it is full, bytes) of each bucket; GPUs, end of the backward pass, latency,
# bytes/s.
BACKWARDS = (
    ([(1.0, 12.0), (2.0, 8.0), (2.5, 5.0)], 4, 3.0, 0.5, 4.0),
    ([(1.0, 2.0), (4.0, 2.0), (6.0, 2.0)], 4, 6.0, 0.25, 1.0),
    ([(6.0, 30.0)], 8, 6.0, 0.0, 10.0),
    ([(1.0, 40.0), (5.0, 1.0), (6.0, 1.0)], 8, 6.0, 0.1, 5.0),
    ([(1.0, 1.0)], 2, 3.0, 0.1, 10.0),
)


@checker("exposed_seconds(buckets, k, backward_end, latency, bandwidth)")
def check_exposed_seconds(exposed_seconds):
    """Check a function that predicts what the communication of a step costs.

    Buckets travel one after the other, each as soon as it is full. The allreduce of n bytes takes
    ``latency + 2 (k - 1) / k n / bandwidth`` seconds on k GPUs.

    Parameters
    ----------
    exposed_seconds : callable
        ``exposed_seconds(buckets, k, backward_end, latency, bandwidth)``: pairs of the second at
        which a bucket is full and its bytes, in the order of sending; how many GPUs; the second at
        which the backward pass ends; returning how many seconds later the last allreduce ends, 0
        if it ends before.

    Raises
    ------
    AssertionError
        If it is another time; the message names the usual mistakes.
    """
    for buckets, k, end, latency, bandwidth in BACKWARDS:
        seconds = [latency + 2 * (k - 1) / k * size / bandwidth for _, size in buckets]
        right = exposed(buckets, seconds, end)
        where = f"buckets {buckets} on {k} GPUs, a backward pass until {end} s"
        got = exposed_seconds.at(where)(list(buckets), k, end, latency, bandwidth)
        got = number(got, f"{where}: what exposed_seconds returns")
        if not math.isclose(got, right, rel_tol=1e-6, abs_tol=1e-9):
            hint = explain_exposed(buckets, k, end, latency, bandwidth, got)
            raise AssertionError(f"{where}: {right:.6g} s are exposed, not {got:.6g}. {hint}")
    print("exposed_seconds: passed")


PEAKS = {"float32": 19.5e12, "tf32": 156e12, "bfloat16": 312e12}


@checker("mfu(net, X, k, seconds, peaks, dtype)")
def check_mfu(mfu):
    """Check a function that computes the share of the GPUs' peak that a training step uses.

    Parameters
    ----------
    mfu : callable
        ``mfu(net, X, k, seconds, peaks, dtype)``: a network whose outputs are one tensor, the whole
        minibatch, over how many GPUs it is divided, the seconds of a step (forward and backward),
        the peaks of one GPU in FLOP/s by type, and the type in which the GPU multiplies; returning
        the share, from 0 to 1.

    Raises
    ------
    AssertionError
        If it is another share; the message names the usual mistakes.
    """
    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    dense = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    for net, X in ((dense, torch.zeros(4, 8)), (conv, torch.zeros(6, 1, 8, 8))):
        once, counted = count_flops(net, X)
        for k, dtype in ((1, "float32"), (4, "tf32"), (8, "bfloat16")):
            where = f"{type(net[0]).__name__}, {len(X)} examples over {k} GPUs, {dtype}"
            got = mfu.at(where)(net, X, k, 2e-9, dict(PEAKS), dtype)
            got = number(got, f"{where}: what mfu returns")
            # Three times the forward pass is the usual estimate; it counts a gradient too many,
            # that of the first layer's inputs.
            whole = k * 2e-9 * PEAKS[dtype]
            right = [counted / whole, 3 * once / whole]
            if not any(math.isclose(got, share, rel_tol=1e-6) for share in right):
                hint = _explain_mfu(got, right, once / whole, k, dtype, len(X))
                raise AssertionError(f"{where}: it is {right[0]:.4g}, not {got:.4g}. {hint}")
    print("mfu: passed")


def count_flops(net, X):
    """Return the FLOPs of a forward pass, and of one with its backward pass."""
    with FlopCounterMode(display=False) as counter:
        outputs = net(X)
        once = counter.get_total_flops()
        outputs.sum().backward()
    net.zero_grad()
    return once, counter.get_total_flops()


def _explain_mfu(got, right, forward, k, dtype, num_images):
    def times(factor, shares=tuple(right)):
        return any(math.isclose(got, factor * share, rel_tol=1e-6) for share in shares)

    if times(1, [forward]):
        return "That is the forward pass alone; the backward pass has about twice as many FLOPs"
    if times(2, [forward]):
        return "That is the backward pass alone"
    for other, peak in PEAKS.items():
        if other != dtype and times(PEAKS[dtype] / peak):
            return f"That is the peak for {other}; this step multiplies in {dtype}"
    for factor, hint in (
        (0.5, "A multiplication and an addition are two operations, and peaks count both"),
        (k, f"All {k} GPUs together have {k} times the peak of one"),
        (1 / k, f"X is the whole minibatch; divide by {k} once"),
        (100, "That is in per cent; return a share, from 0 to 1"),
        (1 / num_images, "Those are the FLOPs of one example; X has more"),
    ):
        if times(factor):
            return hint
    return "Divide the FLOPs of a step by its seconds and by the peak of all GPUs together"


NUM_STEPS = 10


@checker("run_steps(step, num_steps, max_in_flight)")
def check_run_steps(run_steps):
    """Check a loop that lets the host run ahead of the device, but not too far.

    Parameters
    ----------
    run_steps : callable
        ``run_steps(step, num_steps, max_in_flight)``: ``step()`` launches one step and returns an
        event that is done when the step is; ``event.synchronize()`` waits for it. At most
        `max_in_flight` steps may be launched and not done, and none when it returns.

    Raises
    ------
    AssertionError
        If steps are missing, too many are in flight, the device idles although more were allowed,
        or the last steps are not waited for.
    """
    for limit in (1, 2, 4):
        (device,) = sim.configure(1, gpu=_slow_machine.GPU, link=_slow_machine.LINK)
        X = _slow_machine.matrices(1)[0].to(device)
        sim.synchronize()
        sim.reset()
        events, in_flight = [], []

        def step(X=X, events=events, in_flight=in_flight):
            if len(events) == 10 * NUM_STEPS:
                raise AssertionError(f"more steps were launched than the {NUM_STEPS} asked for")
            X @ X
            events.append(sim.Event())
            events[-1].record()
            in_flight.append(sum(not event.query() for event in events))
            return events[-1]

        run_steps.at(f"at most {limit} in flight")(step, NUM_STEPS, limit)
        _check_run(events, in_flight, limit)
    print("run_steps: passed")


def _check_run(events, in_flight, limit):
    where = f"{NUM_STEPS} steps, at most {limit} in flight"
    assert len(events) == NUM_STEPS, f"{where}: {len(events)} steps were launched"
    assert max(in_flight) <= limit, (
        f"{where}: {max(in_flight)} were. Without a wait the host launches everything at once: "
        "memory that it lends to the steps, such as pinned buffers, is lent to all of them "
        "together, and what you measure is how long launching takes. Wait for the oldest step "
        "before you launch the next"
    )
    assert all(event.query() for event in events), (
        f"{where}: the loop returns before the last steps are done; wait for them, or the time "
        "measured leaves them out"
    )
    spans = [span for span in sim.trace() if span.engine == "compute"]
    idle = spans[-1].end - spans[0].start - sum(span.duration for span in spans)
    assert limit == 1 or idle <= _slow_machine.EPSILON, (
        f"{where}: the device idles for {idle * 1e6:.3g} microseconds, since at times nothing is "
        "launched ahead. Wait for the oldest step in flight, not for the newest, and not for all"
    )
