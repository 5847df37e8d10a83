"""Right sizes, times and shares of wires, and what wrong ones mean."""

import math


def smallest_bucket(seconds, sizes, share):
    """Return the smallest size that reaches a share of the bandwidth of the largest."""
    plateau = max(sizes) / seconds(max(sizes))
    return min(size for size in sizes if size / seconds(size) >= share * plateau)


def explain_bucket(seconds, sizes, share, got):
    """Say what is wrong with a size."""
    longest = seconds(max(sizes))
    if got == min((s for s in sizes if seconds(s) >= share * longest), default=None):
        return "compare bytes per second, not seconds"
    if got == max(sizes):
        return "the largest reaches the plateau itself; a smaller one is enough"
    if got not in sizes:
        return "return one of the sizes"
    if got / seconds(got) >= share * max(sizes) / longest:
        return "that is enough, but a smaller one is, too"
    return f"with that only {got / seconds(got) * longest / max(sizes):.0%} are reached"


def factor(collective, n):
    """Return what nccl-tests multiply size over time with, to get `busbw`."""
    if collective == "broadcast":
        return 1.0
    return (2 if collective == "all_reduce" else 1) * (n - 1) / n


def explain_seconds(got, factor, n):
    """Say what is wrong with a time, given in units of size over `busbw`."""
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


def explain_share(got, algorithm, both, sent):
    """Say what is wrong with a share of a wire, given in units of busbw over rate."""
    ring = algorithm == "ring"
    right = (1 + both) / (1 if ring else sent)
    one_way = (
        "that rate adds up both directions; a wire carries half of it in one"
        if both
        else "that rate is already the one of a single direction; do not halve it"
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
