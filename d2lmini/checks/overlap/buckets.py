"""Checkers of gradient buckets: which ones DDP makes, and what sending them costs."""

import math

from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker

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
    """Check a function that groups gradients into buckets, as DDP does from the second step on.

    Gradients become ready in the reverse order of the parameters. A bucket is closed by the
    gradient with which it reaches its limit; the rest at the end is a bucket as well.

    Parameters
    ----------
    make_buckets : callable
        ``make_buckets(sizes, first_cap, cap)``, returning the bytes of the buckets in the order in
        which they are sent, for the bytes of the gradients in the order of the parameters, the
        limit of the first bucket sent, and that of all others.

    Raises
    ------
    AssertionError
        If DDP's buckets are different; the message names the usual mistakes.
    """
    for sizes, first_cap, cap in GRADIENTS:
        right = buckets_of(sizes, first_cap, cap)
        where = f"gradients of {sizes} bytes, limits {first_cap} and {cap}"
        given = make_buckets.at(where)
        what = f"{where}: the bytes of a bucket of make_buckets"
        got = [number(size, what) for size in given.items(given(list(sizes), first_cap, cap))]
        if got != right:
            hint = _explain_buckets(sizes, first_cap, cap, got)
            raise AssertionError(f"{where}: the buckets are {right}, not {got}. {hint}")
    print("make_buckets: passed")


def buckets_of(sizes, first_cap, cap):
    """Return the right buckets; see `check_make_buckets`."""
    buckets, size = [], 0
    for gradient in reversed(sizes):
        size += gradient
        if size >= (cap if buckets else first_cap):
            buckets.append(size)
            size = 0
    return buckets + [size] * (size > 0)


def _explain_buckets(sizes, first_cap, cap, got):
    if got == buckets_of(sizes[::-1], first_cap, cap):
        return "The backward pass begins with the last layer: go through the gradients backwards"
    if got == buckets_of(sizes, cap, cap):
        return "The first bucket has a limit of its own"
    if got == buckets_of(sizes, first_cap, first_cap):
        return "The limit of the first bucket holds for the first bucket only"
    if sum(got) < sum(sizes):
        return f"{sum(sizes) - sum(got)} bytes are never sent; what remains at the end goes last"
    if 0 in got:
        return "An empty bucket is not sent"
    return "A bucket is closed by the gradient with which it reaches its limit; that one is in it"


# (time at which it is full in seconds, bytes) of each bucket; GPUs, end of the backward pass,
# latency, bytes/s.
BACKWARDS = (
    ([(1.0, 12.0), (2.0, 8.0), (2.5, 5.0)], 4, 3.0, 0.5, 4.0),
    ([(1.0, 2.0), (4.0, 2.0), (6.0, 2.0)], 4, 6.0, 0.25, 1.0),
    ([(6.0, 30.0)], 8, 6.0, 0.0, 10.0),
    ([(1.0, 40.0), (5.0, 1.0), (6.0, 1.0)], 8, 6.0, 0.1, 5.0),
    ([(1.0, 1.0)], 2, 3.0, 0.1, 10.0),
)


@checker("exposed_seconds(buckets, k, backward_end, latency, bandwidth)")
def check_exposed_seconds(exposed_seconds):
    """Check a function that predicts the exposed communication time of a step.

    Buckets are sent one after another, each as soon as it is full. The allreduce of n bytes takes
    ``latency + 2 (k - 1) / k n / bandwidth`` seconds on k GPUs.

    Parameters
    ----------
    exposed_seconds : callable
        ``exposed_seconds(buckets, k, backward_end, latency, bandwidth)``, returning how many
        seconds after the backward pass the last allreduce ends, 0 if it ends before. `buckets` has
        pairs of the time at which a bucket is full and its bytes, in the order of sending; `k` is
        the number of GPUs, `backward_end` the time at which the backward pass ends.

    Raises
    ------
    AssertionError
        If it returns another time; the message names the usual mistakes.
    """
    for buckets, k, end, latency, bandwidth in BACKWARDS:
        seconds = [latency + 2 * (k - 1) / k * size / bandwidth for _, size in buckets]
        right = _exposed(buckets, seconds, end)
        where = f"buckets {buckets} on {k} GPUs, a backward pass until {end} s"
        got = exposed_seconds.at(where)(list(buckets), k, end, latency, bandwidth)
        got = number(got, f"{where}: what exposed_seconds returns")
        if not math.isclose(got, right, rel_tol=1e-6, abs_tol=1e-9):
            hint = _explain_exposed(buckets, k, end, latency, bandwidth, got)
            raise AssertionError(f"{where}: {right:.6g} s are exposed, not {got:.6g}. {hint}")
    print("exposed_seconds: passed")


def _exposed(buckets, seconds, backward_end):
    """Return the right answer, given the seconds of every allreduce."""
    done = 0.0
    for (ready, _), each in zip(buckets, seconds, strict=True):
        done = max(done, ready) + each
    return max(0.0, done - backward_end)


def _explain_exposed(buckets, k, end, latency, bandwidth, got):
    def those(factor=2 * (k - 1) / k, latency=latency):
        return [latency + factor * size / bandwidth for _, size in buckets]

    ends = [ready + each for (ready, _), each in zip(buckets, those(), strict=True)]
    together = max(0.0, max(ends) - end)
    answers = (
        (sum(those()), "That is all communication; what travels beside the backward pass "
         "costs nothing"),
        (together, "A bucket must wait until the one before it has arrived"),
        (those()[-1], "That is the last bucket alone; others may be in its way"),
        (_exposed(buckets, those(factor=1.0), end), "An allreduce moves 2 (k - 1) / k times the "
         "bytes of the buffer, not the bytes themselves"),
        (_exposed(buckets, those(factor=2.0), end), "The factor is 2 (k - 1) / k, not 2"),
        (_exposed(buckets, those(factor=(k - 1) / k), end), "The factor is 2 (k - 1) / k, since "
         "the bytes go round twice: once to be added up, once to reach every GPU"),
        (_exposed(buckets, those(factor=4 * (k - 1) / k), end), "The 2 counts twice: 2 (k - 1) / k "
         "has it already"),
        (_exposed(buckets, those(latency=0.0), end), "Every bucket pays the latency"),
        (max(0.0, sum(those()) - end), "The first bucket cannot travel before it is full"),
    )  # fmt: skip
    for answer, hint in answers:
        if math.isclose(got, answer, rel_tol=1e-6):
            return hint
    if got < 0:
        return "What ends before the backward pass costs nothing: 0, not less"
    return (
        "A bucket starts when it is full and the one before has arrived; count from the end of "
        "the backward pass"
    )
