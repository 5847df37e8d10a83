"""The specification of a simulated link. A copy takes ``latency + bytes / bandwidth`` seconds.

The presets are in ``presets.py``, networks between nodes in ``simgpu/network/networks.py``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from simgpu.hardware.assumptions import HOST_RATE, STAGING_CHUNK
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
        Copies to and from pinned host memory, bytes/s.
    pageable_bandwidth : float
        Copies from pageable host memory to the device, bytes/s.
    pageable_to_host : float
        Copies from the device to newly allocated pageable host memory, bytes/s.
    latency : float
        Fixed cost of a copy between host and device, seconds.
    peer : bool
        Whether GPUs copy to each other directly; otherwise copies are staged in pinned host memory.
    peer_bandwidth, peer_latency : float
        Copies from GPU to GPU, bytes/s and seconds; used only if `peer`.
    host_rate : float
        Total bytes/s of all GPUs' copies through the host, where collectives pass it.
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
    host_rate: float = HOST_RATE
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self):
        check_name(self)
        check_positive(
            self,
            (
                "bandwidth", "pageable_bandwidth", "pageable_to_host", "peer_bandwidth",
                "host_rate",
            ),
        )  # fmt: skip
        check_times(self, ("latency", "peer_latency"))
        if not isinstance(self.peer, bool):
            raise ValueError(f"Link {self.name!r}: peer is {self.peer!r}; give True or False")

    def host_seconds(self, nbytes: float, pinned: bool, to_host: bool) -> float:
        """Return the time of one copy between host and device, in seconds.

        Parameters
        ----------
        nbytes : float
            Bytes to move.
        pinned : bool
            Whether the host memory is page-locked.
        to_host : bool
            Direction: True for device to host.
        """
        pageable = self.pageable_to_host if to_host else self.pageable_bandwidth
        return self.latency + nbytes / (self.bandwidth if pinned else pageable)

    def staging(self, nbytes: float) -> tuple[float, float]:
        """Return the times of a copy from GPU to GPU that is staged in host memory, in seconds.

        Parameters
        ----------
        nbytes : float
            Bytes to move, in chunks of `STAGING_CHUNK`, each of which has the link's latency.

        Returns
        -------
        head : float
            Time of the first chunk to the host; then the copy to the target starts.
        way : float
            Time of the whole copy in either direction.
        """
        chunks = max(1, math.ceil(nbytes / STAGING_CHUNK))
        head = self.latency + min(nbytes, STAGING_CHUNK) / self.bandwidth
        return head, chunks * self.latency + nbytes / self.bandwidth

    def peer_seconds(self, nbytes: float) -> float:
        """Return the time of one copy from GPU to GPU, direct or staged, in seconds."""
        if self.peer:
            return self.peer_latency + nbytes / self.peer_bandwidth
        return sum(self.staging(nbytes))
