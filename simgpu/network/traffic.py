"""The edges that a collective uses, the load of each, and the number of steps.

A `Plan` gives, for each *edge* that a collective uses, the seconds for which each byte of its size
keeps that edge busy. The slowest edge determines the rate; on an edge that two collectives share,
their loads add up. Plans do not depend on size and protocol, and are cached.

An edge is a tuple: ``("gpu", rank, "in" or "out")``, ``("host", node)``, ``("wire", rank, rank)``,
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
        Seconds for which each byte of the collective's size keeps each edge busy.
    bus_bytes : float
        Bytes on each connection for each byte of the size, as NCCL's rate caps count them.
    inside, across : float
        Consecutive steps within nodes and between nodes.
    posts : int
        Messages to other nodes that a GPU has at the same time, if pairs exchange data directly.
    counts : list of int
        Members on each node that has any.
    levels : int
        Switches between two nodes: 0, 1 or 3 (leaf, second level, leaf).
    """

    edges: dict
    bus_bytes: float
    inside: float
    across: float
    posts: int
    counts: list
    levels: int

    @property
    def num_nodes(self):
        """Number of nodes that have members."""
        return len(self.counts)

    @functools.cached_property
    def slowest(self):
        """Seconds per byte on the busiest edge."""
        return max(self.edges.values())


class _Loads:
    """The loads of the edges between `members`, added up."""

    def __init__(self, members, cluster):
        self.cluster, self.members = cluster, members
        self.edges = defaultdict(float)
        self.nodes = defaultdict(list)
        for rank in members:
            self.nodes[cluster.node(rank)].append(rank)
        leaves = {cluster.network.leaf(node) for node in self.nodes} if len(self.nodes) > 1 else ()
        self.levels = min(len(self.nodes) - 1, 1) if len(leaves) < 2 else 3

    def inside(self, node, load):
        """Add a `load` that every member on `node` receives and sends within the node."""
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
        """Add a `load` that leaves and enters `node` on the cards of its members, or `senders`."""
        cluster = self.cluster
        cards = {cluster.nic(rank) for rank in senders or self.nodes[node]}
        rates = {card: cluster.card_rate(node, card) for card in cards}
        for way in ways:
            for card in cards:
                self.edges["nic", node, card, way] += load / len(cards) / rates[card]

    def uplinks(self, load):
        """Add a `load` that leaves and enters every leaf switch, if there are several."""
        if self.levels < 3:
            return
        network = self.cluster.network
        for leaf in {network.leaf(node) for node in self.nodes}:
            for way in WAYS:
                self.edges["uplink", leaf, way] += load / network.uplink_rate

    def plan(self, bus_bytes, inside, across, posts=0):
        counts = [len(ranks) for ranks in self.nodes.values()]
        return Plan(dict(self.edges), bus_bytes, inside, across, posts, counts, self.levels)


def _ring(collective, loads):
    """Plan one ring, node after node; each card of a node carries its share."""
    n, k = len(loads.members), len(loads.nodes)
    rounds = 2 if collective == "all_reduce" else 1
    load = 1.0 if collective in ("broadcast", "reduce") else rounds * (n - 1) / n
    for node in loads.nodes:
        loads.inside(node, load)
        if k > 1:
            loads.across(node, load)
    loads.uplinks(load)
    return loads.plan(load, rounds * (n - k), rounds * (k - 1))


def _over_nodes(k):
    """Return the load of a node in NCCL's two binary trees, each for half of the data."""
    return 1.0 if k == 2 else 2.0


def _tree(collective, loads):
    """Plan a reduction up and a broadcast down: chains in the nodes, two trees over the nodes."""
    n, k = len(loads.members), len(loads.nodes)
    for node in loads.nodes:
        loads.inside(node, 2.0)
        if k > 1:
            loads.across(node, _over_nodes(k))
    loads.uplinks(_over_nodes(k))
    return loads.plan(2.0, 2 * (n / k - 1), 2 * (k.bit_length() - 1))


def _in_switch(collective, loads):
    """Plan a reduction and broadcast by the switch, with two trees over the nodes."""
    k, reached = len(loads.nodes), loads.cluster.board.in_switch
    for node, ranks in loads.nodes.items():
        loads.inside(node, (1 + 1 / len(ranks)) / reached)
        if k > 1:
            loads.across(node, _over_nodes(k))
    if k > 1:
        loads.uplinks(_over_nodes(k))
    return loads.plan(2.0, 1, 2 * (k.bit_length() - 1))


def _hierarchical(collective, loads):
    """Plan reduce-scatter inside, rings over nodes, all-gather inside, all pipelined by chunks."""
    k, g = len(loads.nodes), len(loads.members) // len(loads.nodes)
    rounds = 2 if collective == "all_reduce" else 1
    load = rounds * (k - 1) / k
    for node in loads.nodes:
        loads.inside(node, rounds * (g - 1) / g)
        loads.across(node, load)
    loads.uplinks(load)
    return loads.plan(
        rounds * (len(loads.members) - 1) / len(loads.members), rounds * (g - 1), rounds * (k - 1)
    )


def _direct(collective, loads):
    """Plan direct messages between the pairs that exchange data.

    A GPU has messages with all others at the same time. Inside a node they are one step. Between
    nodes there is one, and the CPU posts the others to the network one by one.
    """
    n, (root, *others) = len(loads.members), loads.members
    share = 1.0 if collective == "send" else 1 / n
    if collective == "all_to_all":
        _all_pairs(loads, share)
    for other in others if collective != "all_to_all" else ():
        _message(loads, *((other, root) if collective == "gather" else (root, other)), share)
    load = 1.0 if collective == "send" else (n - 1) / n
    largest = max(map(len, loads.nodes.values()))
    return loads.plan(load, min(largest - 1, 1), min(n - largest, 1), n - largest)


def _all_pairs(loads, share):
    """Add a message from every member to every other; sum up those that leave a node or leaf."""
    n, leaves = len(loads.members), defaultdict(int)
    for node, ranks in loads.nodes.items():
        for a, b in itertools.permutations(ranks, 2):
            _message(loads, a, b, share)
        if len(loads.nodes) > 1:
            leaves[loads.cluster.network.leaf(node)] += len(ranks)
            for rank in ranks:
                loads.across(node, share * (n - len(ranks)), senders=(rank,))
    for leaf, count in leaves.items() if len(leaves) > 1 else ():
        for way in WAYS:
            load = share * count * (n - count)
            loads.edges["uplink", leaf, way] += load / loads.cluster.network.uplink_rate


def _message(loads, a, b, load):
    """Add the loads of one message from rank `a` to rank `b`."""
    cluster = loads.cluster
    nodes = cluster.node(a), cluster.node(b)
    if nodes[0] != nodes[1]:
        loads.across(nodes[0], load, ("out",), (a,))
        loads.across(nodes[1], load, ("in",), (b,))
        network = cluster.network
        leaves = network.leaf(nodes[0]), network.leaf(nodes[1])
        if leaves[0] != leaves[1]:
            loads.edges["uplink", leaves[0], "out"] += load / network.uplink_rate
            loads.edges["uplink", leaves[1], "in"] += load / network.uplink_rate
        return
    board = cluster.board
    rate = board.pair_rate(cluster.local(a), cluster.local(b))
    if board.kind == "mesh" and rate:
        loads.edges["wire", a, b] += load / rate
        return
    if not rate:
        loads.edges["host", nodes[0]] += load / board.host_rate
        rate = min(board.rate, board.pcie_rate) if board.kind == "host" else board.pcie_rate
    loads.edges["gpu", a, "out"] += load / rate
    loads.edges["gpu", b, "in"] += load / rate


_PLANS = {
    "ring": _ring,
    "tree": _tree,
    "nvls": _in_switch,
    "nvls_tree": _in_switch,
    "hierarchical": _hierarchical,
    "direct": _direct,
}


@functools.lru_cache(maxsize=256)
def equal_size(parts, members, cluster) -> float:
    """Return the size of an all-to-all of equal parts that takes as long as one of unequal parts.

    That is, which keeps its busiest edge busy for as many seconds.

    Parameters
    ----------
    parts : tuple of tuple of int
        ``parts[i][j]``: bytes that member `i` sends to member `j`.
    members : tuple of int
        At least two ranks of `cluster`.
    cluster : Cluster
    """
    loads = _Loads(members, cluster)
    for (i, a), (j, b) in itertools.permutations(enumerate(members), 2):
        _message(loads, a, b, parts[i][j])
    return max(loads.edges.values()) / plan("all_to_all", "direct", members, cluster).slowest


@functools.lru_cache(maxsize=4096)
def plan(collective, algorithm, members, cluster) -> Plan:
    """Return the plan by which `algorithm` runs `collective` on `members`.

    Parameters
    ----------
    collective : str
    algorithm : str
        One of `simgpu.network.nccl_choices.ALGORITHMS`.
    members : tuple of int
        At least two ranks of `cluster`; the first is the root.
    cluster : Cluster
    """
    return _PLANS[algorithm](collective, _Loads(members, cluster))
