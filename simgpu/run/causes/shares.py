"""Attribute every moment of a rank's time to one cause."""

import re
from collections import defaultdict

from simgpu.clock.trace import WAIT_FOR_BATCH

WAITING = "waiting for others"
CAUSES = {
    "compute": "a compute-bound kernel runs",
    "memory bandwidth": "a memory-bound kernel runs",
    "communication": "a collective or message of the rank runs, and no kernel",
    "copies": "bytes move between host and device or between devices, and nothing else runs",
    WAITING: "nothing runs: the communication that the rank has issued has not "
    "started, its host waits for other hosts, or the rank has ended",
    "launches": "nothing runs because the host has launched nothing more, or a kernel starts up",
}
INPUT = "input"
# Those of a run in which the script's data loader counts (`simgpu.run.loader`).
CAUSES_WITH_INPUT = {
    **CAUSES, INPUT: "nothing runs, and the host makes a batch of data or waits for one"
}  # fmt: skip
_COPIES = {"h2d", "d2h", "p2p"}
_RANK = re.compile(r"rank (\d+) ")


def by_rank(spans) -> dict:
    """Return the spans of each rank, in the order of the trace: ``{rank: [Span, ...]}``."""
    found = defaultdict(list)
    for span in spans:
        found[int(_RANK.match(span.device)[1])].append(span)
    return dict(sorted(found.items()))


def shares(spans, gpu, start, end) -> dict[str, float]:
    """Return the share of each of the `CAUSES` in the time from `start` to `end`; the sum is 1.

    "input" is among them only if the host has ever waited for data.

    If several apply at one moment, the first in `_intervals` counts.

    Parameters
    ----------
    spans : list of Span
        The spans of one rank, in the order of the trace.
    gpu : GPU
        The GPU that they ran on.
    start, end : float
        The window, in seconds.
    """
    intervals = _intervals(spans, gpu)
    covered, seconds = [], dict.fromkeys(CAUSES, 0.0)
    for cause, found in intervals:
        clipped = [(max(a, start), min(b, end)) for a, b in found if b > start and a < end]
        merged = merge(covered + clipped)
        seconds[cause] = seconds.get(cause, 0.0) + length(merged) - length(covered)
        covered = merged
    seconds["launches"] += end - start - length(covered)
    return {cause: value / (end - start) for cause, value in seconds.items()}


def communicating(spans, start, end) -> float:
    """Return the share of the time from `start` to `end` in which a rank's communication runs."""
    found = [(max(s.start, start), min(s.end, end)) for s in spans if s.engine == "comm"]
    return length(merge((a, b) for a, b in found if a < b)) / (end - start)


def merge(intervals) -> list:
    """Return the union of ``(start, end)`` intervals as sorted intervals that do not touch.

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
    """Return the total length of intervals that do not overlap."""
    return sum(end - start for start, end in merged)


def _intervals(spans, gpu):
    """Return ``(cause, [(start, end), ...])`` pairs, by decreasing precedence."""
    found = defaultdict(list)
    for span in spans:
        if span.engine == "compute":
            moving = gpu.seconds(0, span.bytes) - gpu.kernel_overhead
            begin = span.start + gpu.kernel_overhead
            compute_bound = span.flops and span.end - begin > moving * (1 + 1e-9)
            found["compute" if compute_bound else "memory bandwidth"].append((begin, span.end))
            found["start-up"].append((span.start, begin))
        elif span.engine == "comm":
            found["communication"].append((span.start, span.end))
        elif span.engine in _COPIES:
            found["copies"].append((span.start, span.end))
        elif span.engine == "sync":
            cause = INPUT if span.name == WAIT_FOR_BATCH else "sync"
            found[cause].append((span.start, span.end))
        elif span.engine == "loader" and span.stream == 0:  # the host itself
            found[INPUT].append((span.start, span.end))
    last = max(span.end for span in spans)
    return [
        ("compute", found["compute"]),
        ("memory bandwidth", found["memory bandwidth"]),
        ("launches", found["start-up"]),
        ("communication", found["communication"]),
        ("copies", found["copies"]),
        *([(INPUT, found[INPUT])] if INPUT in found else []),
        (WAITING, [*_waiting_to_start(spans), *found["sync"], (last, float("inf"))]),
    ]


def _waiting_to_start(spans):
    """Return the intervals in which communication is issued but has not started."""
    issued, started = defaultdict(list), defaultdict(list)
    names = {span.name for span in spans if span.engine == "comm"}
    for span, following in zip(spans, [*spans[1:], None], strict=True):
        if span.engine == "comm":
            started[span.stream, span.name].append(span.start)
        elif span.engine == "launch":
            name = "send" if span.name == "recv" else span.name
            if name in names and not _is_kernel_of(following, span):
                issued[span.stream, name].append(span.end)
    return [
        pair for key in started for pair in zip(issued[key], started[key], strict=False)
        if pair[0] < pair[1]
    ]  # fmt: skip


def _is_kernel_of(span, launch):
    """Return whether a span is the kernel of a launch, rather than communication."""
    return (
        span is not None and span.engine == "compute"
        and (span.stream, span.name) == (launch.stream, launch.name)
    )  # fmt: skip
