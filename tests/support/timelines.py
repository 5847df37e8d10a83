"""What the tests of timelines draw."""

from simgpu.clock.span import Span

US = 1e-6


def overlap():
    """Six products; each result travels while the next is computed."""
    spans = []
    for i in range(6):
        spans += [
            Span("host", "launch", 0, "mm", i * 5 * US, 5 * US),
            Span("sim:0", "compute", 0, "mm", (5 + i * 190) * US, 180 * US, 2 * 10**9, 12 * 10**6),
            Span("sim:0", "d2h", 1, "copy sim:0 -> cpu", (195 + i * 190) * US, 150 * US, 0, 10**6),
        ]
    return spans
