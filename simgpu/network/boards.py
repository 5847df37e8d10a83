"""The interconnect inside a node: its topology, and how fast kernels move bytes over it.

The rates are those of NCCL's topology search (``src/graph/topo.h`` of NVIDIA/nccl: 20 GB/s for each
NVLink of a V100 or A100, 12 of an A40, 20.6 of an H100, 40.1 of a B200), per GPU and direction.
Kernels that forward chunks reach these rates; large copies reach more (`Link.peer_bandwidth`).
"""

import functools
import itertools
from dataclasses import dataclass, field

from simgpu.hardware.link import Link
from simgpu.hardware.links import base_of

KINDS = ("host", "mesh", "switch")
CPUS = ("intel", "amd")


@dataclass(frozen=True)
class Board:
    """How the GPUs of one node reach each other.

    Attributes
    ----------
    name : str
        Name of the preset.
    kind : str
        ``"host"``: over PCIe through one host, whose `host_rate` they share. ``"mesh"``: direct
        links between some pairs (`pairs`), through the host for the others. ``"switch"``: every
        GPU reaches every other at full rate.
    rate : float
        Bytes/s per direction that collectives reach: per GPU, or in a mesh per link.
    gpus : int
        Maximum number of GPUs.
    generation : str
        Row of NCCL's tables: ``"volta"``, ``"ampere"``, ``"hopper"``, ``"blackwell"``.
    channels : int
        Thread blocks of a collective on each GPU; each occupies one multiprocessor.
    host_rate : float
        Total bytes/s of all copies through the host.
    pcie_rate : float
        Bytes/s per direction between a GPU and the host or other nodes.
    in_switch : float
        Share of `rate` that reductions inside the switch reach; 0: the switch cannot reduce.
    cpu : str
        Vendor of the host's CPUs, ``"intel"`` or ``"amd"``, which NCCL's model asks for.
    pairs : tuple of (int, int, int)
        The links of a mesh: two GPUs, and the number of links between them.
    sources : dict of str to str
        Where the numbers come from.
    """

    name: str
    kind: str
    rate: float
    gpus: int
    generation: str
    channels: int
    host_rate: float
    pcie_rate: float
    in_switch: float = 0.0
    cpu: str = "intel"
    pairs: tuple = ()
    sources: dict = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(
                f"Board {self.name!r}: kind is {self.kind!r}; give one of {', '.join(KINDS)}"
            )
        if self.cpu not in CPUS:
            raise ValueError(
                f"Board {self.name!r}: cpu is {self.cpu!r}; give one of {', '.join(CPUS)}"
            )
        for name in ("rate", "gpus", "channels", "host_rate", "pcie_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(
                    f"Board {self.name!r}: {name} is {getattr(self, name)!r}; give more than 0"
                )

    @property
    def hardware(self):
        """Key of NCCL's latency tables: ``"nvlink"`` or ``"pci"``."""
        return "pci" if self.kind == "host" else "nvlink"

    def ring_rate(self, gpus):
        """Return the bytes/s that each of these GPUs forwards in rings over all of them.

        Parameters
        ----------
        gpus : tuple of int
            Indices on the board.

        Returns
        -------
        float
            0 if the direct links of a mesh form no ring.
        """
        if self.kind != "mesh":
            return self.rate
        return self.rate * _count_rings(self.pairs, tuple(sorted(gpus)))

    def pair_rate(self, a, b):
        """Return the bytes/s from GPU `a` to GPU `b` without the host; 0: no direct connection."""
        if self.kind == "host":
            return 0.0
        if self.kind == "switch":
            return self.rate
        return self.rate * sum(links for *ends, links in self.pairs if set(ends) == {a, b})


@functools.lru_cache(maxsize=256)  # 8 GPUs have 255 non-empty subsets
def _count_rings(pairs, gpus):
    """Count the directed rings through all `gpus` that use no link twice in the same direction."""
    links = {}
    for a, b, count in pairs:
        links[a, b] = links[b, a] = count
    if len(gpus) == 2:  # there and back: one ring per link
        return links.get(gpus, 0)
    first, *rest = gpus
    cycles = [
        tuple(zip((first, *order), (*order, first), strict=True))
        for order in itertools.permutations(rest)
        if order[0] < order[-1]
    ]
    cycles = [c for c in cycles if all(edge in links for edge in c)]
    return 2 * _most_cycles(cycles, links)  # a link carries one ring in each direction


def _most_cycles(cycles, links):
    """Return how many of `cycles` (repeats allowed) fit on `links`, by exhaustive search."""
    best = 0
    for i, cycle in enumerate(cycles):
        if any(links[edge] < 1 for edge in cycle):
            continue
        left = dict(links)
        for a, b in cycle:
            left[a, b] -= 1
            left[b, a] -= 1
        usable = [c for c in cycles[i:] if all(left[edge] for edge in c)]
        best = max(best, 1 + _most_cycles(usable, left))
        if 2 * best * len(cycle) >= sum(links.values()) - len(cycle):
            break  # too few links are left for another ring
    return best


_TOPO = "NVIDIA/nccl, src/graph/topo.h: {} links x {} GB/s"
_CHANNELS = "PyTorch 2.13, torch/_inductor/comm_analysis.py (_GPU_NCHANNELS)"
# `nvidia-smi topo -m` of a DGX-1 with V100s: two fully connected quads, joined GPU by GPU.
_CUBE = (
    (0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 2),
    (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2),
    (0, 4, 2), (1, 5, 2), (2, 6, 1), (3, 7, 1),
)  # fmt: skip


_HOST = {
    "host_rate": "the link's: assumed",
    "pcie_rate": "the link's copies of pinned memory",
    "cpu": "Intel's in DGX-1, DGX H100 and DGX B200; assumed for PCIe",
}
_REDUCES = "NVIDIA/nccl, src/graph/tuning.cc (nvlsEfficiency)"


def _sources(links, rate, channels, **more):
    return {"rate": _TOPO.format(links, rate), "channels": channels, **_HOST, **more}


_BY_LINK = {
    "nvlink2": dict(
        name="dgx1-v100 board", kind="mesh", rate=20e9, generation="volta", channels=12,
        pairs=_CUBE,
        sources=_sources(
            6, 20, "six rings, each twice",
            pairs="NVIDIA, DGX-1 with Tesla V100 System Architecture white paper, 2017",
        ),
    ),
    "nvlink3": dict(
        name="a100 board", kind="switch", rate=12 * 20e9, generation="ampere", channels=24,
        cpu="amd",
        sources=_sources(
            12, 20, "NCCL's log in NVIDIA/nccl-tests issue 100",
            cpu="NVIDIA, DGX A100 data sheet: two AMD EPYC 7742",
        ),
    ),
    "nvlink4": dict(
        name="h100 board", kind="switch", rate=18 * 20.6e9, generation="hopper", channels=16,
        in_switch=0.85, sources=_sources(18, 20.6, _CHANNELS, in_switch=_REDUCES),
    ),
    "nvlink4_400": dict(
        name="h800 board", kind="switch", rate=8 * 20.6e9, generation="hopper", channels=16,
        in_switch=0.85, sources=_sources(8, 20.6, _CHANNELS, in_switch=_REDUCES),
    ),
    # Four on a node of Alps are joined by six links a pair, 32 of an NVL32 by switches.
    "nvlink4_c2c": dict(
        name="gh200 board", kind="switch", rate=18 * 20.6e9, generation="hopper", channels=16,
        sources=_sources(18, 20.6, _CHANNELS),
    ),
    "nvlink5": dict(
        name="b200 board", kind="switch", rate=18 * 40.1e9, generation="blackwell", channels=32,
        in_switch=0.74, sources=_sources(18, 40.1, _CHANNELS, in_switch=_REDUCES),
    ),
    **{
        name: dict(
            name=f"{name} board", kind="mesh", rate=rate, generation=generation, channels=links,
            pairs=tuple((gpu, gpu + 1, links) for gpu in (0, 2, 4, 6)),
            sources=_sources(
                links, rate / 1e9, "assumed: one for each link",
                pairs="assumed: neighbouring slots",
            ),
        )
        for name, links, rate, generation in (
            ("pcie4_bridge112", 4, 12e9, "ampere"),
            ("pcie4_bridge600", 12, 20e9, "ampere"),
            ("pcie5_bridge600", 12, 20.6e9, "hopper"),
        )
    },
}  # fmt: skip


def board_of(link: Link) -> Board:
    """Return the board of up to 8 GPUs that goes with a link.

    ``nvlink2`` is the hybrid cube mesh of a DGX-1 with V100s, ``nvlink3`` an NVSwitch, ``nvlink4``
    and ``nvlink5`` an NVSwitch that reduces, a bridge a pair of cards. Any other link goes through
    one host.

    Parameters
    ----------
    link : Link
    """
    base = base_of(link)
    if base in _BY_LINK:
        return Board(gpus=8, host_rate=link.host_rate, pcie_rate=link.bandwidth, **_BY_LINK[base])
    return Board(
        name=f"{link.name} board",
        kind="host",
        rate=link.peer_bandwidth if link.peer else link.bandwidth,
        gpus=8,
        generation="ampere",
        channels=2,
        host_rate=link.host_rate,
        pcie_rate=link.bandwidth,
        sources={
            "rate": "the link's bandwidth between peers; without peer access, of pinned copies",
            "channels": "assumed: two thread blocks fill a PCIe link",
            **_HOST,
            "generation": "assumed: what NCCL's tables say for GPUs without NVLink differs little",
        },
    )
