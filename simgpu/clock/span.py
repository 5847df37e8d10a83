"""One entry of a trace: what ran, where, when and for how long."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """One operation on one engine of one device.

    Attributes
    ----------
    device : str
        ``"sim:0"``, ``"cuda:0"`` or ``"host"``; with several ranks ``"rank 3 cuda:0"``.
    engine : str
        ``"compute"``, ``"h2d"``, ``"d2h"``, ``"p2p"``, ``"copy"`` (of unknown direction) or
        ``"comm"`` (a collective) on a device; ``"launch"``, ``"cpu"``, ``"sync"``, ``"loader"``
        (of a script's data) or ``"comm"`` on the host.
    stream : int
        Number of the stream on its device; 0 is the default stream of a simulated GPU. On the
        host, the stream of a simulated launch; in a profile of real devices, the thread (0 is the
        main thread); of a data loader 0 is the host itself, and i + 1 worker i.
    name : str
        The operation: ``"mm"``, ``"convolution"``, ``"copy sim:0 -> cpu"``.
    start, duration : float
        Seconds.
    flops, bytes : int
        Floating-point operations, and bytes: read plus written by a kernel, moved by a copy; for a
        collective, the larger of what this rank sends and receives.
    lane : str
        The lane of its device in which the span is counted and drawn; if empty, that of its engine.
    collective, group : str
        For a collective, its name (``"allreduce"``) and its process group, if known.
    ranks : int
        Number of ranks in the collective; 0 if unknown.

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
