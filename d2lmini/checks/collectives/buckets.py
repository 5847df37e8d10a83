"""Checker of the size of buckets."""

from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker

# Latency, bytes/s, and the wanted share of the largest bandwidth.
LINKS = ((20e-6, 10e9, 0.8), (100e-6, 200e9, 0.8), (1e-3, 1e9, 0.5), (0.0, 1e9, 0.9))
BUCKETS = tuple(parts * 2**i for i in range(10, 28) for parts in (7, 8))


@checker("bucket_size(seconds, sizes, share)")
def check_bucket_size(bucket_size):
    """Check a function that finds the smallest bucket that uses a link well.

    Parameters
    ----------
    bucket_size : callable
        ``bucket_size(seconds, sizes, share)``, returning the smallest of `sizes` whose bandwidth is
        at least `share` of that of the largest; ``seconds(nbytes)`` is the time of an all-reduce.

    Raises
    ------
    AssertionError
        If it returns another size; the message names the usual mistakes.
    """
    for latency, bandwidth, share in LINKS:

        def seconds(nbytes, latency=latency, bandwidth=bandwidth):
            return latency + nbytes / bandwidth

        for sizes in (BUCKETS, BUCKETS[::-1]):
            where = f"latency {latency * 1e6:g} µs, {bandwidth / 1e9:g} GB/s, {share:.0%}"
            got = bucket_size.at(where)(seconds, list(sizes), share)
            got = number(got, f"{where}: what bucket_size returns")
            right = _smallest_bucket(seconds, sizes, share)
            if got != right:
                hint = _explain_bucket(seconds, sizes, share, got)
                raise AssertionError(f"{where}: it is {right}, not {got}; {hint}")
    print("bucket_size: passed")


def _smallest_bucket(seconds, sizes, share):
    """Return the smallest size that reaches a share of the bandwidth of the largest."""
    plateau = max(sizes) / seconds(max(sizes))
    return min(size for size in sizes if size / seconds(size) >= share * plateau)


def _explain_bucket(seconds, sizes, share, got):
    """Return what is wrong with a size."""
    longest = seconds(max(sizes))
    if got == min((s for s in sizes if seconds(s) >= share * longest), default=None):
        return "compare bytes per second, not seconds"
    if got == max(sizes):
        return "the largest reaches the plateau itself; a smaller one is enough"
    if got not in sizes:
        return "return one of the sizes"
    if got / seconds(got) >= share * max(sizes) / longest:
        return "that is enough, but a smaller one is, too"
    return f"that reaches only {got / seconds(got) * longest / max(sizes):.0%}"
