"""Networks between nodes: network cards, their rate and latency, one or two levels of switches."""

from dataclasses import dataclass

from simgpu.nearest import unknown
from simgpu.rates_and_sizes import rate

# NCCL assumes 12 GB/s for a 100 Gbit/s card (src/graph/topo.h, NET_BW): 4 % for headers.
NETWORK_EFFICIENCY = 0.96
# Seconds that a switch adds: of InfiniBand, of kernel TCP (both assumed), of EFA (fitted: sums of
# 8 B over two P5 instances take 65 us in a log of nccl-tests, of which NCCL's model explains 25).
SWITCH_LATENCY, ETHERNET_LATENCY, EFA_LATENCY = 1e-6, 15e-6, 20e-6


@dataclass(frozen=True)
class Network:
    """The network of a cluster, as one node sees it.

    Attributes
    ----------
    name : str
        Name of the preset.
    nics : int
        Network cards per node. GPU `i` of `g` uses card ``i * nics // g``.
    rate : float
        Line rate of one card, bytes/s per direction.
    latency : float
        Seconds that each switch adds to a message, besides NCCL's own latency.
    nodes_per_leaf : int, optional
        Nodes per leaf switch (the first level); None: all nodes are on one switch.
    oversubscription : float
        Total rate of the cards of a leaf switch, divided by the rate of its uplinks to the second
        level.
    cpu : str, optional
        Vendor of the CPUs in nodes that have this network, ``"intel"`` or ``"amd"``; None: that of
        their board (`simgpu.network.boards.Board`).
    ordered : bool
        Whether 128 bytes arrive whole, in the order in which they were written, as protocol LL128
        needs it.
    source : str
        Where the numbers come from.
    """

    name: str
    nics: int
    rate: float
    latency: float
    nodes_per_leaf: int | None = None
    oversubscription: float = 1.0
    cpu: str | None = None
    ordered: bool = True
    source: str = ""

    def __post_init__(self):
        for name in ("nics", "rate", "nodes_per_leaf", "oversubscription"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"Network {self.name!r}: {name} is {value!r}; give more than 0")
        if not self.latency >= 0:
            raise ValueError(
                f"Network {self.name!r}: latency is {self.latency!r}; give seconds, zero or more"
            )

    @property
    def nic_rate(self):
        """Bytes/s per direction that collectives reach on one card."""
        return self.rate * NETWORK_EFFICIENCY

    def leaf(self, node):
        """Return the index of the leaf switch of a node."""
        return 0 if self.nodes_per_leaf is None else node // self.nodes_per_leaf

    @property
    def uplink_rate(self):
        """Bytes/s per direction between one leaf switch and the second level."""
        return (self.nodes_per_leaf or 1) * self.nics * self.nic_rate / self.oversubscription


def _ethernet(gigabits):
    return Network(
        f"ethernet{gigabits}", 1, gigabits / 8 * 1e9, ETHERNET_LATENCY,
        source=f"{gigabits} Gbit/s a node, one card; latency of kernel TCP assumed",
    )  # fmt: skip


NETWORKS = {
    spec.name: spec
    for spec in (
        Network("edr", 4, 12.5e9, SWITCH_LATENCY,
            source="NVIDIA, DGX-1 data sheet: 4 x 100 Gbit/s"),
        Network("hdr", 8, 25e9, SWITCH_LATENCY,
            source="NVIDIA, DGX A100 data sheet: 8 x 200 Gbit/s"),
        Network("ndr", 8, 50e9, SWITCH_LATENCY,
            source="NVIDIA, DGX H100 data sheet: 8 x 400 Gbit/s"),
        Network(
            "efa", 8, 50e9, EFA_LATENCY, cpu="amd", ordered=False,
            source="Amazon EC2 P5 instances: 3,200 Gbit/s a node, AMD EPYC; latency fitted",
        ),
        Network("hdr4", 4, 25e9, SWITCH_LATENCY,
            source="4 x 200 Gbit/s, as in the cluster of vTrain"),
        *(_ethernet(gigabits) for gigabits in (100, 200, 400)),
    )
}  # fmt: skip


def find_network(name_or_spec) -> Network:
    """Return a network; a `Network` is returned as it is.

    Parameters
    ----------
    name_or_spec : str or Network
        Name of a preset, or the rate of a card and how many a node has, one if that is left out:
        ``"25GB/s:8"``. Its latency is that of the presets for InfiniBand.

    Raises
    ------
    ValueError
        If it is neither a preset nor a rate; the message lists the presets.

    Examples
    --------
    >>> find_network("200Gbit/s:8").nics, find_network("200Gbit/s:8").rate
    (8, 25000000000.0)
    """
    if isinstance(name_or_spec, Network):
        return name_or_spec
    if name_or_spec in NETWORKS:
        return NETWORKS[name_or_spec]
    try:
        of_card, _, cards = str(name_or_spec).partition(":")
        return Network(
            name_or_spec, int(cards or 1), rate(of_card), NETWORKS["ndr"].latency,
            source="given; latency as in InfiniBand",
        )  # fmt: skip
    except ValueError:
        others = (
            ", the rate of a card and the cards of a node, as in 25GB/s:8, or a Network of your own"
        )
        raise ValueError(unknown("network", name_or_spec, NETWORKS, others)) from None
