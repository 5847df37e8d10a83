"""Checkers for the exercises of the page on wires: times and the use of wires."""

import math

from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker

PUBLISHED = (
    ("all_reduce", 8, 2**30, 229.04),
    ("all_gather", 8, 2**34, 361.4),
    ("reduce_scatter", 4, 10**9, 300.0),
    ("broadcast", 8, 10**8, 200.0),
    ("all_reduce", 2, 10**8, 100.0),
)


@checker("seconds_of(collective, n, nbytes, busbw)")
def check_seconds_of(seconds_of):
    """Check a function that computes the time from a published bus bandwidth.

    Parameters
    ----------
    seconds_of : callable
        ``seconds_of(collective, n, nbytes, busbw)``, returning seconds. `collective` is
        ``"all_reduce"``, ``"all_gather"``, ``"reduce_scatter"`` or ``"broadcast"``, `n` the number
        of GPUs, `nbytes` the size as nccl-tests counts it, and `busbw` in GB/s.

    Raises
    ------
    AssertionError
        If it returns another time; the message names the usual mistakes.
    """
    for collective, n, nbytes, busbw in PUBLISHED:
        where = f"{collective} of {nbytes} bytes on {n} GPUs, {busbw} GB/s"
        got = seconds_of.at(where)(collective, n, nbytes, busbw)
        got = number(got, f"{where}: what seconds_of returns")
        plain = nbytes / busbw / 1e9
        times = _factor(collective, n)
        if not math.isclose(got, times * plain, rel_tol=1e-6):
            hint = _explain_seconds(got / plain, times, n)
            raise AssertionError(f"{where}: {times * plain:.6g} s, not {got:.6g}; {hint}")
    print("seconds_of: passed")


def _factor(collective, n):
    """Return the factor from size / time to the `busbw` of nccl-tests."""
    if collective == "broadcast":
        return 1.0
    return (2 if collective == "all_reduce" else 1) * (n - 1) / n


def _explain_seconds(got, factor, n):
    """Return what is wrong with a time, given in units of size / `busbw`."""
    share = (n - 1) / n
    for value, hint in (
        (factor * 1e9 / 2**30, "a GB is 10**9 bytes, a GiB 2**30; nccl-tests prints GB/s"),
        (factor * 1e9, "busbw is in GB/s: multiply it by 10**9"),
        (factor * 1e3, "that is in milliseconds; return seconds"),
        (factor * 1e6, "that is in microseconds; return seconds"),
        (1.0, "that takes busbw for algbw, size over time; undo the factor"),
        (1 / factor, "busbw = factor * size / seconds: multiply by the factor, not divide"),
        (2 * share, "the factor 2 (n - 1) / n is that of an all-reduce, which goes round twice"),
        (share, "that factor is (n - 1) / n, of an all-gather or a reduce-scatter"),
    ):
        if math.isclose(got, value, rel_tol=1e-6):
            return hint
    return "busbw is size / seconds times a factor that depends on the collective"


# Algorithm, GPUs, busbw, the advertised rate, and whether that is the sum of both directions.
CLAIMS = (
    ("ring", 8, 234.9, 600.0, True),
    ("in-switch", 8, 473.0, 900.0, True),
    ("in-switch", 4, 380.0, 900.0, True),
    ("tree", 16, 207.0, 200.0, False),
    ("tree", 8, 43.0, 25.0, False),
    ("ring", 32, 365.0, 400.0, False),
)


@checker("share_of_wire(algorithm, n, busbw, sold, both)")
def check_share_of_wire(share_of_wire):
    """Check a function that computes how busy a wire is from the bus bandwidth of nccl-tests.

    Parameters
    ----------
    share_of_wire : callable
        ``share_of_wire(algorithm, n, busbw, sold, both)``, returning the share of one direction of
        the wire that is used: by an all-reduce over `n` GPUs, by ``"ring"``, ``"in-switch"`` or
        ``"tree"`` (over two nodes), with that ``busbw`` (GB/s). `sold` is the advertised rate of
        the wire (GB/s), for `both` directions together or for one.

    Raises
    ------
    AssertionError
        If it returns another share; the message names the usual mistakes.
    """
    for algorithm, n, busbw, sold, both in CLAIMS:
        ways = "both directions" if both else "one direction"
        where = f"{algorithm}, {n} GPUs, busbw {busbw} on {sold} GB/s ({ways})"
        got = share_of_wire.at(where)(algorithm, n, busbw, sold, both)
        got = number(got, f"{where}: what share_of_wire returns")
        sent = 2 * (n - 1) / n
        right = busbw / sold * (1 + both) / (1 if algorithm == "ring" else sent)
        if not math.isclose(got, right, rel_tol=1e-6):
            hint = _explain_share(got / (busbw / sold), algorithm, both, sent)
            raise AssertionError(f"{where}: it is {right:.4g}, not {got:.4g}; {hint}")
    print("share_of_wire: passed")


def _explain_share(got, algorithm, both, sent):
    """Return what is wrong with a share of a wire, given in units of busbw / rate."""
    ring = algorithm == "ring"
    right = (1 + both) / (1 if ring else sent)
    one_way = (
        "that rate adds up both directions; a wire carries half of it in one"
        if both
        else "that rate is already for a single direction; do not halve it"
    )
    undone = (
        "busbw is what a wire of a ring carries; do not undo the factor for a ring"
        if ring
        else "busbw is for a ring, which sends 2 (n - 1) / n times the size; this sends the size "
        "once, so its wires carry algbw"
    )
    for value, hint in (
        (right / 2 if both else right * 2, one_way),
        (right / sent if ring else right * sent, undone),
        ((2 - both) / (sent if ring else 1), f"{undone}; {one_way}"),
        (100 * right, "that is in per cent; return a share of 1"),
    ):
        if math.isclose(got, value, rel_tol=1e-6):
            return hint
    return "divide what the wire carries by the rate of one direction"
