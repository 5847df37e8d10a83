"""The time that collectives take on a cluster, as NCCL would run them.

``seconds = latency + bytes x (seconds per byte on the busiest edge) / efficiency``, for each
algorithm and protocol that NCCL has for the collective; the fastest is chosen. Latencies and
efficiencies are NCCL's own (``nccl_parameters.py``); the load of each edge depends on where the
members are (``traffic.py``).

Sizes are those of nccl-tests: all_reduce, broadcast, reduce, send: the buffer. all_gather: the
result. reduce_scatter, all_to_all: the input of one rank. gather, scatter: all of the root's data.
"""

import functools
from dataclasses import dataclass, field

from simgpu.network import nccl_parameters as nccl
from simgpu.network.bus_bandwidth import bus_factor, check_collective
from simgpu.network.nccl_choices import check_algorithm, choices, members_by_node, protocols
from simgpu.network.traffic import Plan, plan

# Thread blocks of a collective with one member per node: few are enough to saturate one card.
NETWORK_CHANNELS = 2


@dataclass(frozen=True)
class Cost:
    """The time of one collective, and the resources that it uses.

    Attributes
    ----------
    collective : str
    num_bytes : int
        Its size, as nccl-tests counts it.
    num_members : int
    seconds : float
        From when the last member starts to the end.
    latency : float
        The part of `seconds` that does not depend on the size.
    algorithm : str
        One of `simgpu.network.nccl_choices.ALGORITHMS`; ``"none"`` for a single member.
    protocol : str
        ``"LL"``, ``"LL128"`` or ``"Simple"``.
    channels : int
        Thread blocks on each member's GPU; each occupies one multiprocessor.
    memory_bytes : float
        Bytes read from and written to each member's memory.
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
        """Size divided by time, bytes/s; 0 if the time is 0."""
        return self.num_bytes / self.seconds if self.seconds else 0.0

    @property
    def bus_bandwidth(self):
        """The ``busbw`` of nccl-tests, in bytes/s."""
        return self.algorithm_bandwidth * bus_factor(self.collective, self.num_members)

    def sm_share(self, gpu):
        """Return the share of the multiprocessors of `gpu` that it occupies; 0 if unknown."""
        return self.channels / gpu.multiprocessors if gpu.multiprocessors else 0.0

    def memory_share(self, gpu, seconds=None):
        """Return the share of the achieved memory bandwidth of `gpu` that it uses.

        Parameters
        ----------
        gpu : GPU
        seconds : float, optional
            How long it runs; default: the attribute `seconds`.
        """
        seconds = self.seconds if seconds is None else seconds
        achieved = gpu.memory_bandwidth * gpu.memory_efficiency
        return self.memory_bytes / (seconds * achieved) if seconds else 0.0

    def busy(self):
        """Return the seconds for which it keeps each edge (see ``traffic.py``) busy, as a dict."""
        edges = {} if self.plan is None else self.plan.edges
        wire = max(self.seconds - self.latency, 0.0)
        return {edge: wire * load / self.plan.slowest for edge, load in edges.items()}


def cost(collective, num_bytes, members, cluster, algorithm=None, alongside=()) -> Cost:
    """Predict the cost of one collective.

    Parameters
    ----------
    collective : str
        One of `simgpu.network.bus_bandwidth.COLLECTIVES`.
    num_bytes : int
        The size, as nccl-tests counts it.
    members : sequence of int
        Distinct ranks of `cluster`, the root (or the sender) first.
    cluster : Cluster
    algorithm : str, optional
        One of `simgpu.network.nccl_choices.ALGORITHMS`, instead of NCCL's fastest.
        ``"hierarchical"`` is used only on request: over several nodes NCCL itself chooses between
        ``"ring"``, ``"tree"`` and ``"nvls_tree"``.
    alongside : sequence of sequences of int, optional
        Members of other groups that run the same collective at the same time; the loads of shared
        edges add up.

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        If the collective, a member or the algorithm is unknown, or they do not fit together.

    Examples
    --------
    >>> from simgpu.network.cluster import find_cluster
    >>> found = cost("all_reduce", 2**30, range(8), find_cluster("dgx-a100"))
    >>> found.algorithm, found.protocol, round(found.bus_bandwidth / 1e9)
    ('ring', 'Simple', 238)
    """
    check_collective(collective)
    members = _check_members(collective, members, cluster)
    if not num_bytes >= 0:
        raise ValueError(f"{collective}: num_bytes is {num_bytes!r}; give zero or more")
    if len(members) == 1:
        return Cost(collective, num_bytes, 1, 0.0, 0.0, "none", "Simple")
    others = tuple(_check_members(collective, group, cluster) for group in alongside)
    if algorithm is not None:
        check_algorithm(collective, algorithm, members, cluster)
    return _cheapest(collective, num_bytes, members, cluster, algorithm, others)


@functools.lru_cache(maxsize=4096)
def _cheapest(collective, num_bytes, members, cluster, algorithm, others):
    """Return the lowest `Cost`; cached, since programs repeat their collectives."""
    algorithms = (algorithm,) if algorithm else choices(collective, members, cluster)
    found = (
        _price(collective, num_bytes, members, cluster, name, protocol, others)
        for name in algorithms
        for protocol in protocols(name, cluster)
    )
    return min(found, key=lambda price: price.seconds)


def _check_members(collective, members, cluster):
    members = members if type(members) is tuple else tuple(members)
    _check_ranks(members, cluster)
    if collective == "send" and len(members) != 2:
        raise ValueError(f"send got {len(members)} members; give the sender and the receiver")
    return members


@functools.lru_cache(maxsize=4096)
def _check_ranks(members, cluster):
    """Raise ValueError for ranks not in the cluster; cached, since programs repeat their groups."""
    if not members:
        raise ValueError("a collective got no members; give the ranks that take part")
    for rank in members:
        if not isinstance(rank, int) or not 0 <= rank < cluster.world_size:
            raise ValueError(
                f"{rank!r} is not a rank of {cluster.name}; give ranks from 0 to "
                f"{cluster.world_size - 1}"
            )
    if len(set(members)) < len(members):
        raise ValueError(f"members {members} name a rank twice; give each once")


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
    counts = members_by_node(members, cluster)
    return Cost(
        collective,
        num_bytes,
        len(members),
        latency + num_bytes * per_byte,
        latency,
        algorithm,
        protocol,
        cluster.board.channels if max(counts) > 1 else NETWORK_CHANNELS,
        num_bytes * _memory_traffic(collective, algorithm, len(members)),
        found,
    )


def _slow_down(found, per_byte, num_bytes, cluster, algorithm, protocol):
    """Apply the protocol's efficiency, rate cap and correction to the seconds per byte."""
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


def _memory_traffic(collective, algorithm, n):
    """Return the bytes read from and written to a member's memory for each byte of the size.

    Data are read to be sent and written on arrival; a sum also reads the member's own part. If the
    switch reduces, each byte is read once and written once.
    """
    if algorithm in ("nvls", "nvls_tree"):
        return 2.0
    share = (n - 1) / n
    sums = collective in ("all_reduce", "reduce_scatter", "reduce")
    return 2 * bus_factor(collective, n) + (share if sums else 0.0)
