"""The time that collectives take on a cluster, as NCCL would run them.

NCCL's own model (``nccl_model.py``) chooses the algorithm and protocol: ``latency + bytes x
(seconds per byte on the busiest edge) / efficiency``; the load of each edge depends on where the
members are (``traffic.py``). The time is longer: ``measured.py`` has what measurements add to it.

Sizes are those of nccl-tests: all_reduce, broadcast, reduce, send: the buffer. all_gather: the
result. reduce_scatter, all_to_all: the input of one rank. gather, scatter: all of the root's data.
"""

import functools
from dataclasses import dataclass, field
from typing import NamedTuple

from simgpu.network import measured
from simgpu.network import nccl_parameters as nccl
from simgpu.network.bus_bandwidth import bus_factor, check_collective
from simgpu.network.cluster import Cluster
from simgpu.network.nccl_choices import check_algorithm, choices, protocols
from simgpu.network.nccl_model import IN_SWITCH, expected_seconds, latency, seconds_per_byte
from simgpu.network.traffic import Plan, equal_size, plan

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
        The part of `seconds` in which it keeps no edge busy: the latency of its steps, and the
        time until its links have enough chunks (``measured.py``).
    algorithm : str
        One of `simgpu.network.nccl_choices.ALGORITHMS`; ``"none"`` for a single member.
    protocol : str
        ``"LL"``, ``"LL128"`` or ``"Simple"``.
    channels : int
        Thread blocks on each member's GPU, fewer for small messages; each occupies one
        multiprocessor.
    memory_bytes : float
        Bytes read from and written to each member's memory.
    plan : Plan
        The edges that it uses; None for a single member.
    wire_share : float
        Share of the busiest edge that it occupies while its bytes move: less than 1 for a message
        that its few channels limit.
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
    wire_share: float = 1.0

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
        wire = max(self.seconds - self.latency, 0.0) * self.wire_share
        return {edge: wire * load / self.plan.slowest for edge, load in edges.items()}


def cost(collective, num_bytes, members, cluster, algorithm=None, alongside=(), ranks=None) -> Cost:
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
    ranks : int, optional
        Size of the communicator of messages between pairs, over which NCCL spreads its channels;
        default: the number of members.

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
    ('ring', 'Simple', 224)
    """
    members = members if type(members) is tuple else tuple(members)
    others = tuple(map(tuple, alongside))
    return _cost(collective, num_bytes, members, cluster, algorithm, others, ranks)


@functools.lru_cache(maxsize=4096)
def _cost(collective, num_bytes, members, cluster, algorithm, others, ranks):
    """Return the `Cost` of what NCCL would choose; cached, since programs repeat collectives."""
    check_collective(collective)
    for group in (members, *others):
        _check_members(collective, group, cluster)
    if not num_bytes >= 0:
        raise ValueError(f"{collective}: num_bytes is {num_bytes!r}; give zero or more")
    if len(members) == 1:
        return Cost(collective, num_bytes, 1, 0.0, 0.0, "none", "Simple")
    if algorithm is not None:
        check_algorithm(collective, algorithm, members, cluster)
    ranks = len(members) if ranks is None else ranks
    call = _Call(collective, num_bytes, members, cluster, others, ranks)
    algorithms = (algorithm,) if algorithm else choices(collective, members, cluster)
    options = [(name, protocol) for name in algorithms for protocol in _protocols(call, name)]

    def expected(option):
        name, protocol = option
        found, per_byte = call.plan(name), call.per_byte(name)
        return expected_seconds(collective, num_bytes, found, per_byte, cluster, name, protocol)

    return _price(call, *min(options, key=expected))


class _Call(NamedTuple):
    """One collective, and what else is on its links."""

    collective: str
    num_bytes: float
    members: tuple
    cluster: Cluster
    others: tuple
    ranks: int

    def plan(self, algorithm):
        return plan(self.collective, algorithm, self.members, self.cluster)

    def per_byte(self, algorithm):
        """Return the seconds for each byte on the busiest edge, with the loads of other groups."""
        found = self.plan(algorithm)
        if not self.others:
            return found.slowest
        plans = [plan(self.collective, algorithm, group, self.cluster) for group in self.others]
        return max(
            load + sum(other.edges.get(edge, 0.0) for other in plans)
            for edge, load in found.edges.items()
        )

    def pair_channels(self, num_bytes):
        return nccl.pair_channels(self.cluster.board.channels, num_bytes, self.ranks)


def forget():
    """Forget all costs computed so far: for those who change a constant."""
    for cached in (_cost, plan, equal_size):
        cached.cache_clear()


def _check_members(collective, members, cluster):
    """Raise ValueError for members that are not in the cluster, or too many or few."""
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
    if collective == "send" and len(members) != 2:
        raise ValueError(f"send got {len(members)} members; give the sender and the receiver")


def _price(call, algorithm, protocol):
    collective, num_bytes, cluster = call.collective, call.num_bytes, call.cluster
    found, n = call.plan(algorithm), len(call.members)
    # What is measured beyond NCCL's model is the same for all algorithms: their order stays.
    links = "direct" if algorithm == "direct" else "ring"
    idle = latency(collective, num_bytes, found, cluster, algorithm, protocol)
    idle += measured.start(collective)
    idle += measured.filling(
        num_bytes, call.plan(links).slowest, _most_channels(call, found), _levels(collective, found)
    )
    wire = _wire_seconds(call, found, algorithm, protocol)
    slower = measured.slower(num_bytes, call.per_byte(links))
    moving = slower + (max(wire, _channel_seconds(call, found)) if collective == "send" else wire)
    return Cost(
        collective,
        num_bytes,
        n,
        idle + moving,
        idle,
        algorithm,
        protocol,
        _channels(call, found, algorithm, protocol),
        num_bytes * _memory_traffic(collective, algorithm, n),
        found,
        (wire + slower) / moving if moving else 1.0,
    )


def _wire_seconds(call, found, algorithm, protocol):
    """Return the seconds in which NCCL expects bytes to move."""
    per_byte = call.per_byte(algorithm)
    return call.num_bytes * seconds_per_byte(
        call.num_bytes, found, per_byte, call.cluster, algorithm, protocol
    )


def _channel_seconds(call, found):
    """Return the seconds that the channels of a message between two GPUs of a node take."""
    board = call.cluster.board
    if found.num_nodes > 1 or board.hardware != "nvlink":
        return 0.0
    part = nccl.pair_part(board.channels, call.num_bytes, call.ranks)
    return part / measured.PAIR_CHANNEL_RATE[board.generation]


def _levels(collective, found):
    """Return the levels of a tree over the nodes if data are summed over them for all, else 1."""
    return max(found.num_nodes.bit_length() - 1, 1) if collective == "all_reduce" else 1


def _protocols(call, algorithm):
    """Return the protocols that NCCL has; for messages between pairs LL up to a size."""
    if algorithm != "direct":
        return protocols(algorithm, call.plan(algorithm).num_nodes, call.cluster)
    each = call.num_bytes / (1 if call.collective == "send" else len(call.members))
    small = each <= call.pair_channels(each) * nccl.PAIR_LL_BYTES
    return ("LL", "Simple") if small else ("Simple",)


def _most_channels(call, found):
    """Return the thread blocks that a large message occupies on each GPU."""
    return NETWORK_CHANNELS if max(found.counts) == 1 else call.cluster.board.channels


def _channels(call, found, algorithm, protocol):
    """Return the thread blocks that a message occupies on each GPU (topoGetAlgoInfo)."""
    n, most = len(call.members), _most_channels(call, found)
    if algorithm in IN_SWITCH or max(found.counts) == 1:
        return most
    if algorithm != "direct":
        return nccl.channels_of(protocol, most, call.num_bytes, n)
    if call.collective == "send":
        return call.pair_channels(call.num_bytes)
    return min(most, (n - 1) * call.pair_channels(call.num_bytes / n))


def _memory_traffic(collective, algorithm, n):
    """Return the bytes read from and written to a member's memory for each byte of the size.

    Data are read to be sent and written on arrival; a sum also reads the member's own part. If the
    switch reduces, each byte is read once and written once.
    """
    if algorithm in IN_SWITCH:
        return 2.0
    share = (n - 1) / n
    sums = collective in ("all_reduce", "reduce_scatter", "reduce")
    return 2 * bus_factor(collective, n) + (share if sums else 0.0)
