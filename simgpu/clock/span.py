"""One entry of a trace: what ran where, from when, for how long."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """One operation on one engine of one device.

    Attributes
    ----------
    device : str
        ``"sim:0"``, ``"cuda:0"`` or ``"host"``; of several ranks ``"rank 3 cuda:0"``.
    engine : str
        ``"compute"``, ``"h2d"``, ``"d2h"``, ``"p2p"``, ``"copy"`` (of unknown direction) or
        ``"comm"`` (a collective) on a device; ``"launch"``, ``"cpu"``, ``"sync"`` or ``"comm"`` on
        the host.
    stream : int
        Number of the stream on its device; 0 is the default stream of a simulated GPU. On the host
        the stream that a simulated launch is for; in a profile of real devices the thread, 0 being
        the main one.
    name : str
        The operation: ``"mm"``, ``"convolution"``, ``"copy sim:0 -> cpu"``.
    start, duration : float
        Seconds.
    flops, bytes : int
        Floating-point operations, and bytes: read plus written by a kernel, moved by a copy; of a
        collective the larger of what this rank gives and gets.
    lane : str
        Where the span is counted and drawn, beside its device; empty: under its engine.
    collective, group : str
        Of a collective, its name (``"allreduce"``) and its process group, where known.
    ranks : int
        How many ranks take part in the collective; 0: unknown.

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
    lane: str = ""
    collective: str = ""
    group: str = ""
    ranks: int = 0

    @property
    def end(self) -> float:
        """When the operation finished, in seconds."""
        return self.start + self.duration
