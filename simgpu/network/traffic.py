"""Which wires a collective uses, how much of the data each carries, and in how many steps.

A `Plan` says, for each *edge* that a collective uses, how many seconds a byte of its size keeps
that edge busy. The slowest edge sets the rate; edges that two collectives share add up. Plans do
not depend on size and protocol, and are remembered.

An edge is a tuple: ``("gpu", rank, "in" or "out")``, ``("host", node)``,
``("nic", node, card, "in" or "out")`` or ``("uplink", leaf, "in" or "out")``.
"""

import functools
import itertools
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
        """Charge every member on `node` with a `load` that it takes in and passes on inside."""
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
        """Charge a `load` that leaves and enters `node`, over its members' cards or `senders`'."""
        cluster, network = self.cluster, self.cluster.network
        cards = {cluster.nic(rank) for rank in senders or self.nodes[node]}
        for way in ways:
            for card in cards:
                self.edges["nic", node, card, way] += load / len(cards) / network.nic_rate

    def uplinks(self, load):
        """Charge a `load` that leaves and enters every leaf switch, if there is a second level."""
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
    """Pass data round one ring, node after node; each card of a node carries its share."""
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
    """Send sums up and results down: chains in the nodes, two trees over them."""
    n, k = len(wires.members), len(wires.nodes)
    for node in wires.nodes:
        wires.inside(node, 2.0)
        if k > 1:
            wires.across(node, _over_nodes(k))
    wires.uplinks(_over_nodes(k))
    return wires.plan(2.0, 2 * (n / k - 1), 2 * (k.bit_length() - 1))


def _in_switch(wires):
    """Let the switch add up what the GPUs offer and hand the sum to all; trees over nodes."""
    k = len(wires.nodes)
    for node, ranks in wires.nodes.items():
        wires.inside(node, 1 + 1 / len(ranks))
        if k > 1:
            wires.across(node, _over_nodes(k))
    if k > 1:
        wires.uplinks(_over_nodes(k))
    return wires.plan(2.0, 1, 2 * (k.bit_length() - 1))


def _hierarchical(collective, wires):
    """Scatter inside, ring across one GPU a node, gather inside; chunk by chunk, all at once."""
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
    """Let every pair that has something to exchange do so itself."""
    n, (root, *others) = len(wires.members), wires.members
    share = 1.0 if collective == "send" else 1 / n
    if collective == "all_to_all":
        _all_pairs(wires, share)
    for other in others if collective != "all_to_all" else ():
        _message(wires, *((other, root) if collective == "gather" else (root, other)), share)
    load = 1.0 if collective == "send" else (n - 1) / n
    largest = max(map(len, wires.nodes.values()))
    inside, across = largest - 1, n - largest
    return wires.plan(load, inside, across)


def _all_pairs(wires, share):
    """Charge a message from each to each; leaving a node by card and by leaf."""
    n, leaves = len(wires.members), defaultdict(int)
    for node, ranks in wires.nodes.items():
        for a, b in itertools.permutations(ranks, 2):
            _message(wires, a, b, share)
        if len(wires.nodes) > 1:
            leaves[wires.cluster.network.leaf(node)] += len(ranks)
            for rank in ranks:
                wires.across(node, share * (n - len(ranks)), senders=(rank,))
    for leaf, count in leaves.items() if len(leaves) > 1 else ():
        for way in WAYS:
            load = share * count * (n - count)
            wires.edges["uplink", leaf, way] += load / wires.cluster.network.uplink_rate


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
