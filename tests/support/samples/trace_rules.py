"""What holds in every trace of a simulated machine."""

import itertools
import math

ROUNDING = 1e-9  # relative, of times that are sums


def check_trace(spans, gpu, link, end):
    """Assert that no engine does two things at once, or more than it can."""
    lanes = {}
    for span in spans:
        assert math.isfinite(span.start), span
        assert math.isfinite(span.duration), span
        assert 0 <= span.start <= span.end <= end * (1 + ROUNDING), span
        _check_rate(span, gpu, link)
        lanes.setdefault((span.device, span.engine), []).append(span)
    for lane in lanes.values():
        lane.sort(key=lambda span: (span.start, span.end))
        for a, b in itertools.pairwise(lane):
            assert a.end <= b.start + ROUNDING * end, (a, b)
    launches = [s.start for s in spans if s.device == "host"]
    assert launches == sorted(launches)  # the host issues in order


def _check_rate(span, gpu, link):
    seconds = span.duration * (1 + ROUNDING)
    if span.engine == "compute":
        assert span.bytes <= gpu.memory_bandwidth * seconds, span
        assert span.flops <= max(gpu.flops.values()) * seconds, span
    elif span.engine in ("h2d", "d2h"):
        assert span.bytes <= link.bandwidth * seconds, span
    elif span.engine == "p2p":
        assert span.bytes <= link.peer_bandwidth * seconds, span
