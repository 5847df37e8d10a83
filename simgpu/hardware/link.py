"""What a simulated link is: a few numbers, checked. A copy lasts ``latency + bytes / bandwidth``.

The presets are in ``presets.py``, networks between nodes in ``networks.py``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from simgpu.hardware.assumptions import STAGING_CHUNK
from simgpu.hardware.validation import check_name, check_positive, check_times


@dataclass(frozen=True)
class Link:
    """How a machine's GPUs reach the host and each other; every rate is per GPU and direction.

    GPUs with NVLink still reach the host over PCIe, so a link has two halves.

    Attributes
    ----------
    name : str
        Name of the preset.
    bandwidth : float
        Copies from and to pinned host memory, bytes/s.
    pageable_bandwidth : float
        Copies from ordinary host memory to the device, bytes/s.
    pageable_to_host : float
        Copies from the device into ordinary host memory that is fresh, bytes/s.
    latency : float
        Seconds that every copy between host and device takes besides moving bytes.
    peer : bool
        True: GPUs copy to each other directly. False: through pinned host memory, in chunks.
    peer_bandwidth, peer_latency : float
        Copies from GPU to GPU, bytes/s and seconds; used only if `peer`.
    sources : dict of str to str
        Where each number comes from.

    Raises
    ------
    ValueError
        If a rate is not positive and finite, or a latency is negative.

    Examples
    --------
    >>> from simgpu.hardware.presets import find_link
    >>> round(1e3 * find_link("pcie3").host_seconds(4 * 4000**2, pinned=True, to_host=True), 2)
    5.08
    """

    name: str
    bandwidth: float
    pageable_bandwidth: float
    pageable_to_host: float
    latency: float
    peer: bool
    peer_bandwidth: float
    peer_latency: float
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self):
        check_name(self)
        check_positive(
            self, ("bandwidth", "pageable_bandwidth", "pageable_to_host", "peer_bandwidth")
        )
        check_times(self, ("latency", "peer_latency"))
        if not isinstance(self.peer, bool):
            raise ValueError(f"Link {self.name!r}: peer is {self.peer!r}; give True or False")

    def host_seconds(self, nbytes: float, pinned: bool, to_host: bool) -> float:
        """Time of one copy between host and device, in seconds.

        Parameters
        ----------
        nbytes : float
            Bytes to move.
        pinned : bool
            Whether the host's side is page-locked memory.
        to_host : bool
            Direction: True from the device to the host.
        """
        pageable = self.pageable_to_host if to_host else self.pageable_bandwidth
        return self.latency + nbytes / (self.bandwidth if pinned else pageable)

    def staging(self, nbytes: float) -> tuple[float, float]:
        """Time a copy from GPU to GPU through the host's memory, in seconds.

        Parameters
        ----------
        nbytes : float
            Bytes to move, in chunks of `STAGING_CHUNK`, each of which has the link's latency.

        Returns
        -------
        head : float
            From the start of the way down to the start of the way up: the first chunk.
        way : float
            How long either way lasts.
        """
        chunks = max(1, math.ceil(nbytes / STAGING_CHUNK))
        head = self.latency + min(nbytes, STAGING_CHUNK) / self.bandwidth
        return head, chunks * self.latency + nbytes / self.bandwidth

    def peer_seconds(self, nbytes: float) -> float:
        """Time of one copy from GPU to GPU, in seconds, direct or staged."""
        if self.peer:
            return self.peer_latency + nbytes / self.peer_bandwidth
        return sum(self.staging(nbytes))
