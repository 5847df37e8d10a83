"""One entry of a trace: what ran where, from when, for how long."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """One operation on one engine of one device.

    Attributes
    ----------
    device : str
        ``"sim:0"``, ``"cuda:0"`` or ``"host"``.
    engine : str
        ``"compute"``, ``"h2d"``, ``"d2h"`` or ``"p2p"`` on a device; ``"launch"``, ``"cpu"`` or
        ``"sync"`` on the host.
    stream : int
        Number of the stream on its device; 0 is the default stream.
    name : str
        The operation: ``"mm"``, ``"convolution"``, ``"copy sim:0 -> cpu"``.
    start, duration : float
        Seconds.
    flops, bytes : int
        Floating-point operations, and bytes read plus written.

    Examples
    --------
    >>> Span("sim:0", "compute", 0, "mm", start=1.0, duration=0.5, flops=2 * 10**9).end
    1.5
    """

    device: str
    engine: str
    stream: int
    name: str
    start: float
    duration: float
    flops: int = 0
    bytes: int = 0

    @property
    def end(self) -> float:
        """When the operation finished, in seconds."""
        return self.start + self.duration
