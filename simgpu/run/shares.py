"""What the time of a rank goes on: every moment has one cause."""

import re
from collections import defaultdict

CAUSES = {
    "compute": "a kernel runs that calculates for longer than it moves bytes",
    "memory bandwidth": "a kernel runs that moves bytes for longer than it calculates",
    "communication": "a collective or message of the rank runs, and no kernel",
    "copies": "bytes move between host and device or between devices, and nothing else runs",
    "waiting for others": "the rank has issued communication that has not begun, or its host waits "
    "for that of other hosts, or it has ended, and nothing runs",
    "launches": "nothing runs as the host has issued nothing more, or a kernel starts up",
}
_COPIES = {"h2d", "d2h", "p2p"}
_RANK = re.compile(r"rank (\d+) ")


def by_rank(spans) -> dict:
    """Return the spans of each rank, in the order of the trace: ``{rank: [Span, ...]}``."""
    found = defaultdict(list)
    for span in spans:
        found[int(_RANK.match(span.device)[1])].append(span)
    return dict(sorted(found.items()))


def shares(spans, gpu, start, end) -> dict[str, float]:
    """Return for each of the `CAUSES` its share of the time from `start` to `end`; the sum is 1.

    If several hold at one moment, the first of them counts.

    Parameters
    ----------
    spans : list of Span
        Of one rank, in the order of the trace.
    gpu : GPU
        That they ran on.
    start, end : float
        The window, in seconds.
    """
    intervals = _intervals(spans, gpu)
    covered, seconds = [], dict.fromkeys(CAUSES, 0.0)
    for cause, found in intervals:
        clipped = [(max(a, start), min(b, end)) for a, b in found if b > start and a < end]
        merged = merge(covered + clipped)
        seconds[cause] += length(merged) - length(covered)
        covered = merged
    seconds["launches"] += end - start - length(covered)
    return {cause: value / (end - start) for cause, value in seconds.items()}


def communicating(spans, start, end) -> float:
    """Return the share of the time from `start` to `end` in which a rank's communication runs."""
    found = [(max(s.start, start), min(s.end, end)) for s in spans if s.engine == "comm"]
    return length(merge((a, b) for a, b in found if a < b)) / (end - start)


def merge(intervals) -> list:
    """Return the union of ``(start, end)`` pairs as sorted pairs that do not touch.

    Examples
    --------
    >>> merge([(3, 4), (0, 2), (1, 3), (6, 7)])
    [(0, 4), (6, 7)]
    """
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def length(merged) -> float:
    """Return the total length of pairs that do not overlap."""
    return sum(end - start for start, end in merged)


def _intervals(spans, gpu):
    """Return ``(cause, [(start, end), ...])``, the first cause of a moment first."""
    found = defaultdict(list)
    for span in spans:
        if span.engine == "compute":
            moving = gpu.seconds(0, span.bytes) - gpu.kernel_overhead
            begin = span.start + gpu.kernel_overhead
            calculates = span.flops and span.end - begin > moving * (1 + 1e-9)
            found["compute" if calculates else "memory bandwidth"].append((begin, span.end))
            found["start-up"].append((span.start, begin))
        elif span.engine == "comm":
            found["communication"].append((span.start, span.end))
        elif span.engine in _COPIES:
            found["copies"].append((span.start, span.end))
        elif span.engine == "sync":
            found["sync"].append((span.start, span.end))
    last = max(span.end for span in spans)
    return [
        ("compute", found["compute"]),
        ("memory bandwidth", found["memory bandwidth"]),
        ("launches", found["start-up"]),
        ("communication", found["communication"]),
        ("copies", found["copies"]),
        ("waiting for others", [*_not_begun(spans), *found["sync"], (last, float("inf"))]),
    ]


def _not_begun(spans):
    """Return from when on until when communication is issued, but has not begun."""
    issued, begun = defaultdict(list), defaultdict(list)
    names = {span.name for span in spans if span.engine == "comm"}
    for span, following in zip(spans, [*spans[1:], None], strict=True):
        if span.engine == "comm":
            begun[span.stream, span.name].append(span.start)
        elif span.engine == "launch":
            name = "send" if span.name == "recv" else span.name
            if name in names and not _is_kernel_of(following, span):
                issued[span.stream, name].append(span.end)
    return [
        pair for key in begun for pair in zip(issued[key], begun[key], strict=False)
        if pair[0] < pair[1]
    ]  # fmt: skip


def _is_kernel_of(span, launch):
    """Whether a span is the kernel that a launch is for, rather than communication."""
    return (
        span is not None and span.engine == "compute"
        and (span.stream, span.name) == (launch.stream, launch.name)
    )  # fmt: skip
