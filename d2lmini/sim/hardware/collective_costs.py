"""How long collectives take on a cluster, as NCCL would run them.

``seconds = latency + bytes x (seconds that a byte keeps the busiest edge busy) / efficiency``, for
each algorithm and protocol that NCCL has for the collective; the fastest runs. Latencies and
efficiencies are NCCL's own (``nccl_parameters.py``), which wires are used is worked out for the
members (``traffic.py``).

Sizes are those of nccl-tests: all_reduce, broadcast, reduce, send: the buffer. all_gather: the
result. reduce_scatter, all_to_all: what one rank gives in. gather, scatter: all of the root's data.
"""

import functools
from dataclasses import dataclass, field

from d2lmini.sim.hardware import nccl_parameters as nccl
from d2lmini.sim.hardware.cluster import Cluster
from d2lmini.sim.hardware.traffic import Plan, plan

COLLECTIVES = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "broadcast",
    "reduce",
    "all_to_all",
    "gather",
    "scatter",
    "send",
)
ALGORITHMS = ("ring", "tree", "nvls", "nvls_tree", "hierarchical", "direct")
# NCCL keeps the ring for up to 4 GPUs: NVIDIA/nccl issue 1455, 365 to 370 GB/s from 2 to 4.
IN_SWITCH_FROM = 5
# Thread blocks of a collective whose members are all on different nodes: one card is soon filled.
NETWORK_CHANNELS = 2


@dataclass(frozen=True)
class Cost:
    """What one collective takes.

    Attributes
    ----------
    collective : str
    num_bytes : int
        Its size, as nccl-tests counts.
    num_members : int
    seconds : float
        From the last member's start to the end.
    latency : float
        The part of `seconds` that does not depend on the size.
    algorithm : str
        One of `ALGORITHMS`; ``"none"`` for a single member.
    protocol : str
        ``"LL"``, ``"LL128"`` or ``"Simple"``.
    channels : int
        Thread blocks that it occupies on each member's GPU, a multiprocessor each.
    memory_bytes : float
        Bytes that each member's memory reads and writes meanwhile.
    plan : Plan
        The edges that it uses; None for a single member.
    """

    collective: str
    num_bytes: float
    num_members: int
    seconds: float
    latency: float
    algorithm: str
    protocol: str
    channels: int = 0
    memory_bytes: float = 0.0
    plan: Plan | None = field(default=None, repr=False)

    @property
    def algorithm_bandwidth(self):
        """Size over time, bytes/s; 0 for no bytes."""
        return self.num_bytes / self.seconds if self.seconds else 0.0

    @property
    def bus_bandwidth(self):
        """What nccl-tests prints as ``busbw``, in bytes/s."""
        return self.algorithm_bandwidth * bus_factor(self.collective, self.num_members)

    def sm_share(self, gpu):
        """Share of the multiprocessors of `gpu` that it keeps from other kernels; 0 if unknown."""
        return self.channels / gpu.multiprocessors if gpu.multiprocessors else 0.0

    def memory_share(self, gpu):
        """Share of the peak memory bandwidth of `gpu` that it takes while it runs."""
        return self.memory_bytes / (self.seconds * gpu.memory_bandwidth) if self.seconds else 0.0

    def busy(self):
        """Return how many seconds it keeps each edge (see ``traffic.py``) busy, as a dict."""
        edges = {} if self.plan is None else self.plan.edges
        wire = max(self.seconds - self.latency, 0.0)
        return {edge: wire * load / self.plan.slowest for edge, load in edges.items()}


def bus_factor(collective, num_members):
    """Return what nccl-tests multiplies size / time with to get ``busbw`` (its PERFORMANCE.md).

    Examples
    --------
    >>> bus_factor("all_reduce", 8), bus_factor("all_gather", 8), bus_factor("broadcast", 8)
    (1.75, 0.875, 1.0)
    """
    _check_collective(collective)
    if collective in ("broadcast", "reduce", "send"):
        return 1.0
    rounds = 2 if collective == "all_reduce" else 1
    return rounds * (num_members - 1) / num_members


def seconds_at(collective, num_bytes, num_members, bus_bandwidth):
    """Return the time that a published ``busbw`` (bytes/s) stands for."""
    return num_bytes * bus_factor(collective, num_members) / bus_bandwidth


def cost(collective, num_bytes, members, cluster, algorithm=None, alongside=()) -> Cost:
    """Predict one collective.

    Parameters
    ----------
    collective : str
        One of `COLLECTIVES`.
    num_bytes : int
        The size, as nccl-tests counts.
    members : sequence of int
        Ranks of `cluster`, each once, the root (or the sender) first.
    cluster : Cluster
    algorithm : str, optional
        One of `ALGORITHMS`, instead of the fastest that NCCL has. ``"hierarchical"`` runs only
        when asked for: NCCL's own answer to several nodes is ``"tree"`` or ``"nvls_tree"``.
    alongside : sequence of sequences of int, optional
        Members of other groups that do the same at the same time: what they load adds up.

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        If the collective, a member or the algorithm is unknown or does not fit.

    Examples
    --------
    >>> from d2lmini.sim.hardware.cluster import find_cluster
    >>> found = cost("all_reduce", 2**30, range(8), find_cluster("dgx-a100"))
    >>> found.algorithm, found.protocol, round(found.bus_bandwidth / 1e9)
    ('ring', 'Simple', 238)
    """
    _check_collective(collective)
    members = _check_members(collective, members, cluster)
    if not num_bytes >= 0:
        raise ValueError(f"{collective}: num_bytes is {num_bytes!r}; give zero or more")
    if len(members) == 1:
        return Cost(collective, num_bytes, 1, 0.0, 0.0, "none", "Simple")
    others = tuple(_check_members(collective, group, cluster) for group in alongside)
    if algorithm is None:
        algorithms = _choices(collective, members, cluster)
    else:
        _check_algorithm(collective, algorithm, members, cluster)
        algorithms = (algorithm,)
    found = (
        _price(collective, num_bytes, members, cluster, name, protocol, others)
        for name in algorithms
        for protocol in _protocols(name, cluster)
    )
    return min(found, key=lambda price: price.seconds)


def _check_collective(collective):
    if collective not in COLLECTIVES:
        raise ValueError(
            f"unknown collective {collective!r}; give one of {', '.join(COLLECTIVES)}"
        )


def _check_members(collective, members, cluster):
    members = members if type(members) is tuple else tuple(members)
    _check_ranks(members, cluster)
    if collective == "send" and len(members) != 2:
        raise ValueError(f"send got {len(members)} members; give the sender and the receiver")
    return members


@functools.lru_cache(maxsize=4096)
def _check_ranks(members, cluster):
    """Refuse ranks that are not there; remembered, since the same groups come again and again."""
    if not members:
        raise ValueError("a collective got no members; give the ranks that take part")
    for rank in members:
        if not isinstance(rank, int) or not 0 <= rank < cluster.world_size:
            raise ValueError(
                f"{rank!r} is no rank of {cluster.name}; give ranks from 0 to "
                f"{cluster.world_size - 1}"
            )
    if len(set(members)) < len(members):
        raise ValueError(f"members {members} name a rank twice; give each once")


@functools.lru_cache(maxsize=4096)
def _nodes(members, cluster):
    """Return how many members each node has."""
    nodes = [cluster.node(rank) for rank in members]
    return tuple(nodes.count(node) for node in sorted(set(nodes)))


def _choices(collective, members, cluster):
    """Return the algorithms that NCCL would consider."""
    if collective in ("all_to_all", "gather", "scatter", "send"):
        return ("direct",)
    if collective != "all_reduce":
        return ("ring",)
    if not cluster.board.in_switch:
        return ("ring", "tree")
    counts = _nodes(members, cluster)
    if len(counts) > 1:
        return ("ring", "tree", "nvls_tree") if min(counts) > 1 else ("ring", "tree")
    return ("ring", "tree", "nvls") if len(members) >= IN_SWITCH_FROM else ("ring", "tree")


def _check_algorithm(collective, algorithm, members, cluster):
    counts = _nodes(members, cluster)
    direct = collective in ("all_to_all", "gather", "scatter", "send")
    reasons = {
        "ring": direct and "its data have different receivers; use 'direct'",
        "direct": not direct and "it passes data on; use 'ring'",
        "tree": collective != "all_reduce" and "trees sum to all; use 'ring'",
        "nvls": (collective != "all_reduce" and "the switch sums to all; use 'ring'")
        or (not cluster.board.in_switch and f"the {cluster.board.name} has no such switch")
        or (len(counts) > 1 and "one switch reaches one node; use 'nvls_tree'"),
        "nvls_tree": (collective != "all_reduce" and "the switch sums to all; use 'ring'")
        or (not cluster.board.in_switch and f"the {cluster.board.name} has no such switch")
        or (len(counts) == 1 and "there is one node; use 'nvls'"),
        "hierarchical": (
            collective not in ("all_reduce", "all_gather", "reduce_scatter") and "use 'ring'"
        )
        or (len(counts) == 1 and "there is one node; use 'ring'")
        or (len(set(counts)) > 1 and "nodes have different numbers of members; use 'ring'"),
    }
    if algorithm not in reasons:
        raise ValueError(f"unknown algorithm {algorithm!r}; give one of {', '.join(ALGORITHMS)}")
    if reasons[algorithm]:
        raise ValueError(f"{collective} cannot run as {algorithm!r}: {reasons[algorithm]}")


def _protocols(algorithm, cluster):
    if algorithm in ("nvls", "nvls_tree"):
        return ("Simple",)
    if algorithm == "direct":
        return ("LL", "Simple")
    # LL128 relies on stores of 128 bytes that arrive whole, which PCIe does not promise.
    return nccl.PROTOCOLS if cluster.board.hardware == "nvlink" else ("LL", "Simple")


def _price(collective, num_bytes, members, cluster, algorithm, protocol, others):
    found = plan(collective, algorithm, members, cluster)
    per_byte = found.slowest
    if others:
        plans = [plan(collective, algorithm, group, cluster) for group in others]
        per_byte = max(
            load + sum(other.edges.get(edge, 0.0) for other in plans)
            for edge, load in found.edges.items()
        )
    per_byte = _slow_down(found, per_byte, num_bytes, cluster, algorithm, protocol)
    latency = _latency(found, cluster, algorithm, protocol)
    counts = _nodes(members, cluster)
    return Cost(
        collective,
        num_bytes,
        len(members),
        latency + num_bytes * per_byte,
        latency,
        algorithm,
        protocol,
        cluster.board.channels if max(counts) > 1 else NETWORK_CHANNELS,
        num_bytes * _memory_traffic(collective, len(members)),
        found,
    )


def _slow_down(found, per_byte, num_bytes, cluster, algorithm, protocol):
    """Return the seconds a byte with the protocol's efficiency, caps and corrections."""
    if algorithm in ("nvls", "nvls_tree"):
        return per_byte / cluster.board.in_switch
    kind = "tree" if algorithm == "tree" else "ring"
    per_byte /= nccl.efficiency(kind, protocol, found.num_nodes)
    if protocol == "LL":
        cap = nccl.ll_rate(cluster.board.generation, found.num_nodes)
        per_byte = max(per_byte, found.bus_bytes / cap)
    if kind == "tree":
        per_byte /= nccl.tree_correction(protocol, num_bytes)
    return per_byte


def _latency(found, cluster, algorithm, protocol):
    if algorithm in ("nvls", "nvls_tree"):
        across = nccl.IN_SWITCH_NET_LATENCY + _switches(found, cluster)
        return nccl.IN_SWITCH_LATENCY + found.across * across
    kind = "tree" if algorithm == "tree" else "ring"
    inside = nccl.STEP_LATENCY[cluster.board.hardware][kind][protocol]
    if kind == "ring" and found.num_nodes > 1:
        inside = max(inside, nccl.NET_OVERHEAD[protocol])
    across = nccl.STEP_LATENCY["net"][kind][protocol] + _switches(found, cluster)
    return nccl.BASE_LATENCY[kind][protocol] + found.inside * inside + found.across * across


def _switches(found, cluster):
    return found.levels * cluster.network.latency if found.levels else 0.0


def _memory_traffic(collective, n):
    """Bytes that a member's memory reads and writes for each byte of the size.

    What is sent is read and what arrives is written; a sum also reads the member's own part.
    """
    share = (n - 1) / n
    sums = collective in ("all_reduce", "reduce_scatter", "reduce")
    return 2 * bus_factor(collective, n) + (share if sums else 0.0)
