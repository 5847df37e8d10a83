"""Which wires a collective uses, how much of the data each carries, and in how many steps.

A `Plan` says, for each *edge* that a collective uses, how many seconds a byte of its size keeps
that edge busy. The slowest edge sets the rate; edges that two collectives share add up. Plans do not
depend on size and protocol, and are remembered.

An edge is a tuple: ``("gpu", rank, "in" or "out")``, ``("host", node)``,
``("nic", node, card, "in" or "out")`` or ``("uplink", leaf, "in" or "out")``.
"""

import functools
from collections import defaultdict
from dataclasses import dataclass

WAYS = ("in", "out")


@dataclass(frozen=True)
class Plan:
    """How one algorithm moves the data of one collective.

    Attributes
    ----------
    edges : dict
        Seconds that a byte of the collective's size keeps each edge busy.
    bus_bytes : float
        Bytes that a wire carries for each byte of the size, as NCCL's caps count them.
    inside, across : float
        Steps one after the other, within nodes and between them.
    num_nodes : int
    levels : int
        Switches between two nodes: 0, 1 or 3 (up to the second level and down).
    """

    edges: dict
    bus_bytes: float
    inside: float
    across: float
    num_nodes: int
    levels: int

    @functools.cached_property
    def slowest(self):
        """Seconds that a byte keeps the busiest edge busy."""
        return max(self.edges.values())


class _Wires:
    """Adds up the load of the edges between `members`."""

    def __init__(self, members, cluster):
        self.cluster, self.members = cluster, members
        self.edges = defaultdict(float)
        self.nodes = defaultdict(list)
        for rank in members:
            self.nodes[cluster.node(rank)].append(rank)
        leaves = {cluster.network.leaf(node) for node in self.nodes} if len(self.nodes) > 1 else ()
        self.levels = min(len(self.nodes) - 1, 1) if len(leaves) < 2 else 3

    def inside(self, node, load):
        """Every member on `node` takes in and passes on `load` within the node."""
        cluster, ranks = self.cluster, self.nodes[node]
        if len(ranks) == 1:
            return
        board = cluster.board
        rate = board.ring_rate(tuple(cluster.local(rank) for rank in ranks))
        if board.kind == "host" or not rate:
            self.edges["host", node] += len(ranks) * load / board.host_rate
            rate = min(board.rate, board.pcie_rate) if board.kind == "host" else board.pcie_rate
        for rank in ranks:
            for way in WAYS:
                self.edges["gpu", rank, way] += load / rate

    def across(self, node, load, ways=WAYS, senders=None):
        """`load` leaves and enters `node`, over the cards of its members or of `senders`."""
        cluster, network = self.cluster, self.cluster.network
        cards = {cluster.nic(rank) for rank in senders or self.nodes[node]}
        for way in ways:
            for card in cards:
                self.edges["nic", node, card, way] += load / len(cards) / network.nic_rate

    def uplinks(self, load):
        """`load` leaves and enters every leaf switch, where there is a second level."""
        if self.levels < 3:
            return
        network = self.cluster.network
        for leaf in {network.leaf(node) for node in self.nodes}:
            for way in WAYS:
                self.edges["uplink", leaf, way] += load / network.uplink_rate

    def plan(self, bus_bytes, inside, across):
        k = len(self.nodes)
        return Plan(dict(self.edges), bus_bytes, inside, across, k, self.levels)


def _ring(collective, wires):
    """All GPUs in one ring, node after node; it enters a node by all its cards, a share by each."""
    n, k = len(wires.members), len(wires.nodes)
    rounds = 2 if collective == "all_reduce" else 1
    load = 1.0 if collective in ("broadcast", "reduce") else rounds * (n - 1) / n
    for node in wires.nodes:
        wires.inside(node, load)
        if k > 1:
            wires.across(node, load)
    wires.uplinks(load)
    return wires.plan(load, rounds * (n - k), rounds * (k - 1))


def _over_nodes(k):
    """Bytes that enter each node in two binary trees, each for half of the data (NCCL's)."""
    return 1.0 if k == 2 else 2.0


def _tree(wires):
    """Chains in the nodes, two trees over them: sums go up, results come down."""
    n, k = len(wires.members), len(wires.nodes)
    for node in wires.nodes:
        wires.inside(node, 2.0)
        if k > 1:
            wires.across(node, _over_nodes(k))
    wires.uplinks(_over_nodes(k))
    return wires.plan(2.0, 2 * (n / k - 1), 2 * (k.bit_length() - 1))


def _in_switch(wires):
    """The switch adds up what the GPUs offer and hands the sum to all; trees over nodes."""
    k = len(wires.nodes)
    for node, ranks in wires.nodes.items():
        wires.inside(node, 1 + 1 / len(ranks))
        if k > 1:
            wires.across(node, _over_nodes(k))
    if k > 1:
        wires.uplinks(_over_nodes(k))
    return wires.plan(2.0, 1, 2 * (k.bit_length() - 1))


def _hierarchical(collective, wires):
    """Scatter inside, rings of one GPU a node across, gather inside; in chunks, all at once."""
    k, g = len(wires.nodes), len(wires.members) // len(wires.nodes)
    rounds = 2 if collective == "all_reduce" else 1
    load = rounds * (k - 1) / k
    for node in wires.nodes:
        wires.inside(node, rounds * (g - 1) / g)
        wires.across(node, load)
    wires.uplinks(load)
    return wires.plan(
        rounds * (len(wires.members) - 1) / len(wires.members), rounds * (g - 1), rounds * (k - 1)
    )


def _direct(collective, wires):
    """Every pair that has something to send does so itself."""
    n, root = len(wires.members), wires.members[0]
    if collective == "all_to_all":
        pairs = ((a, b) for a in wires.members for b in wires.members if a != b)
    elif collective == "gather":
        pairs = ((a, root) for a in wires.members[1:])
    elif collective == "scatter":
        pairs = ((root, b) for b in wires.members[1:])
    else:
        pairs = ((root, wires.members[1]),)
    share = 1.0 if collective == "send" else 1 / n
    for a, b in pairs:
        _message(wires, a, b, share)
    load = 1.0 if collective == "send" else (n - 1) / n
    largest = max(map(len, wires.nodes.values()))
    inside, across = largest - 1, n - largest
    return wires.plan(load, inside, across)


def _message(wires, a, b, load):
    """Charge one message from rank `a` to rank `b`."""
    cluster = wires.cluster
    nodes = cluster.node(a), cluster.node(b)
    if nodes[0] != nodes[1]:
        wires.across(nodes[0], load, ("out",), (a,))
        wires.across(nodes[1], load, ("in",), (b,))
        network = cluster.network
        leaves = network.leaf(nodes[0]), network.leaf(nodes[1])
        if leaves[0] != leaves[1]:
            wires.edges["uplink", leaves[0], "out"] += load / network.uplink_rate
            wires.edges["uplink", leaves[1], "in"] += load / network.uplink_rate
        return
    board = cluster.board
    rate = board.pair_rate(cluster.local(a), cluster.local(b))
    if board.kind == "mesh" and rate:
        wires.edges["wire", a, b] += load / rate
        return
    if not rate:
        wires.edges["host", nodes[0]] += load / board.host_rate
        rate = min(board.rate, board.pcie_rate) if board.kind == "host" else board.pcie_rate
    wires.edges["gpu", a, "out"] += load / rate
    wires.edges["gpu", b, "in"] += load / rate


@functools.lru_cache(maxsize=4096)
def plan(collective, algorithm, members, cluster) -> Plan:
    """Return how `algorithm` moves the data of `collective` between `members`.

    Parameters
    ----------
    collective : str
    algorithm : str
        ``"ring"``, ``"tree"``, ``"nvls"``, ``"nvls_tree"``, ``"hierarchical"`` or ``"direct"``.
    members : tuple of int
        At least two ranks of `cluster`; the first is the root.
    cluster : Cluster
    """
    wires = _Wires(members, cluster)
    if algorithm == "ring":
        return _ring(collective, wires)
    if algorithm == "tree":
        return _tree(wires)
    if algorithm in ("nvls", "nvls_tree"):
        return _in_switch(wires)
    if algorithm == "hierarchical":
        return _hierarchical(collective, wires)
    return _direct(collective, wires)
