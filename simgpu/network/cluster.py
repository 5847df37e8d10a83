"""Clusters: nodes of GPUs on a board, connected by a network.

Start with `build_cluster` (from the names of a GPU, a link and a network) or `find_cluster` (whole
systems by name). The cost of collectives is in ``collective_costs.py``.
"""

from dataclasses import dataclass, replace

from simgpu.hardware.default import find_gpu_and_link
from simgpu.hardware.link import Link
from simgpu.hardware.links import base_of
from simgpu.hardware.specs import GPU
from simgpu.network.boards import Board, board_of
from simgpu.network.networks import Network, find_network

MOST_GPUS = 2**17  # that are simulated in seconds: the edges of their links are listed one by one


@dataclass(frozen=True)
class Cluster:
    """Identical nodes; rank r is GPU ``r % gpus_per_node`` of node ``r // gpus_per_node``.

    Attributes
    ----------
    name : str
        Name in messages.
    gpu : GPU
    link : Link
        How a GPU reaches its host.
    board : Board
        How the GPUs of a node reach each other.
    gpus_per_node, nodes : int
    network : Network, optional
        What connects the nodes; a single node needs none.
    slow_cards : tuple
        Triples of node, card and a factor: how many times as long bytes take on that card.

    Raises
    ------
    ValueError
        If a number is not positive, there are more than `MOST_GPUS`, a node has more GPUs than the
        board can, or several nodes have no network.
    """

    name: str
    gpu: GPU
    link: Link
    board: Board
    gpus_per_node: int
    nodes: int = 1
    network: Network | None = None
    slow_cards: tuple = ()

    def __post_init__(self):
        for name in ("gpus_per_node", "nodes"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(
                    f"Cluster {self.name!r}: {name} is {value!r}; give a positive integer"
                )
        if self.world_size > MOST_GPUS:
            raise ValueError(
                f"{self.world_size:,} GPUs are too many to simulate; give {MOST_GPUS:,} or fewer"
            )
        if self.gpus_per_node > self.board.gpus:
            raise ValueError(
                f"Cluster {self.name!r}: {self.gpus_per_node} GPUs do not fit on a "
                f"{self.board.name}, which carries {self.board.gpus}; give more nodes and a network"
            )
        if self.nodes > 1 and self.network is None:
            raise ValueError(
                f"Cluster {self.name!r}: {self.nodes} nodes without a network; give one, such as "
                "network='hdr' (the launcher: --network hdr)"
            )

    def __hash__(self):
        """Hash a few fields only: clusters are keys of caches, where hashing must be fast."""
        return hash((self.name, self.nodes, self.gpus_per_node))

    @property
    def world_size(self):
        """Number of GPUs."""
        return self.nodes * self.gpus_per_node

    @property
    def cpu(self):
        """Vendor of the CPUs, as NCCL's model asks for it: ``"intel"`` or ``"amd"``."""
        return (self.network and self.network.cpu) or self.board.cpu

    def node(self, rank):
        """Return the node of a rank."""
        return rank // self.gpus_per_node

    def local(self, rank):
        """Return the index of a rank's GPU on its node."""
        return rank % self.gpus_per_node

    def nic(self, rank):
        """Return the index of the network card that a rank uses on its node."""
        return self.local(rank) * self.network.nics // self.gpus_per_node

    def card_rate(self, node, card):
        """Return the bytes/s per direction that collectives reach on a card of a node."""
        factors = (factor for *place, factor in self.slow_cards if place == [node, card])
        return self.network.nic_rate / max(factors, default=1.0)

    def with_slow_cards(self, factors):
        """Return the cluster with slower cards.

        Parameters
        ----------
        factors : dict of int to float
            For a rank, how many times as long bytes take on the network card that it uses.

        Raises
        ------
        ValueError
            If there is no such rank, or nothing joins the nodes.
        """
        if factors and self.network is None:
            raise ValueError(
                f"{self.name} has no network cards that could be slow; give several nodes"
            )
        cards = ((self.node(rank), self.nic(rank), f) for rank, f in sorted(factors.items()))
        return replace(self, slow_cards=tuple(cards))


def build_cluster(world_size, gpu=None, link=None, nodes=1, network=None) -> Cluster:
    """Make a cluster of `world_size` GPUs from the names of its parts.

    Parameters
    ----------
    world_size : int
        Total number of GPUs: a multiple of `nodes`, at most 8 per node.
    gpu : str or GPU, optional
    link : str or Link, optional
        As for `simgpu.configure`. Determines the board (`simgpu.network.boards.board_of`).
    nodes : int
    network : str or Network, optional

    Raises
    ------
    ValueError
        If there is no such preset, or the GPUs do not fit.
    """
    return cluster_from_specs(world_size, *find_gpu_and_link(gpu, link), nodes, network)


def cluster_from_specs(world_size, gpu, link, nodes=1, network=None) -> Cluster:
    """Make a cluster as `build_cluster` does, of a `GPU` and a `Link` instead of names."""
    if nodes < 1 or world_size % nodes:
        raise ValueError(
            f"{world_size} GPUs cannot be spread evenly over {nodes} nodes; give a multiple"
        )
    return Cluster(
        name=f"{nodes} x {world_size // nodes} {gpu.name} on {link.name}",
        gpu=gpu,
        link=link,
        board=board_of(link),
        gpus_per_node=world_size // nodes,
        nodes=nodes,
        network=None if network is None else find_network(network),
    )


# Real systems: the names of GPU, link and network, where the sources of the numbers are.
SYSTEMS = {
    "dgx1-v100": ("v100", "nvlink2", "edr"),
    "dgx-a100": ("a100", "nvlink3", "hdr"),
    "hgx-h100": ("h100", "nvlink4", "ndr"),
    "hgx-h200": ("h200", "nvlink4", "ndr"),
    "hgx-b200": ("b200", "nvlink5", "ndr"),
    "rtx4090-workstation": ("rtx4090", "pcie4_staged", "ethernet100"),
    "cloud-v100": ("v100", "nvlink2", "ethernet100"),
    "cloud-a100": ("a100", "nvlink3", "ethernet400"),
    "cloud-h200": ("h200", "nvlink4", "efa"),
    "hgx-h800": ("h800", "nvlink4_400", "ndr"),
    "hgx-h20": ("h20", "nvlink4", "ndr"),
    "hgx-b300": ("b300", "nvlink5", "ndr"),
}


def usual_network(link) -> str:
    """Return the name of the network that joins nodes with a link, in `SYSTEMS`.

    Examples
    --------
    >>> usual_network(find_gpu_and_link("a100")[1])
    'hdr'
    """
    found = (network for _, name, network in SYSTEMS.values() if name == base_of(link))
    return next(found, "ethernet100")


def find_cluster(name_or_spec, nodes=1, gpus_per_node=8) -> Cluster:
    """Return a cluster of `nodes` nodes of a real system; a `Cluster` is returned as it is.

    Parameters
    ----------
    name_or_spec : str or Cluster
        A name in `SYSTEMS`.
    nodes, gpus_per_node : int
        Size of the cluster.

    Raises
    ------
    ValueError
        If there is no such system, or its nodes have fewer GPUs.

    Examples
    --------
    >>> find_cluster("dgx-a100", nodes=2).world_size
    16
    """
    if isinstance(name_or_spec, Cluster):
        return name_or_spec
    if name_or_spec not in SYSTEMS:
        raise ValueError(
            f"unknown system {name_or_spec!r}; give one of {', '.join(SYSTEMS)}, or a Cluster of "
            "your own"
        )
    gpu, link, network = SYSTEMS[name_or_spec]
    return build_cluster(nodes * gpus_per_node, gpu, link, nodes, network)
