"""NCCL's own model of the time of a collective, by which it chooses: ``latency + size / rate``.

The formulas of ``src/graph/tuning.cc`` of NVIDIA/nccl (ncclTopoTuneModel, ncclTopoGetAlgoTime) on
the numbers of ``nccl_parameters.py``. The rate is that of the busiest edge (``traffic.py``), where
NCCL has that of the channels that its search finds.
"""

from simgpu.network import nccl_parameters as nccl
from simgpu.network.bus_bandwidth import bus_factor

IN_SWITCH = ("nvls", "nvls_tree")


def expected_seconds(collective, num_bytes, found, per_byte, cluster, algorithm, protocol):
    """Return the time that NCCL expects, in seconds.

    Parameters
    ----------
    collective, num_bytes
        As for `simgpu.network.collective_costs.cost`.
    found : Plan
    per_byte : float
        Seconds for each byte on the busiest edge of `found`.
    cluster : Cluster
    algorithm, protocol : str
    """
    start = latency(collective, num_bytes, found, cluster, algorithm, protocol)
    if algorithm == "nvls":
        board = cluster.board
        rate = nccl.in_switch_rate(board.generation, board.rate, sum(found.counts))
        return start + num_bytes / (rate * board.in_switch)
    rest = seconds_per_byte(num_bytes, found, per_byte, cluster, algorithm, protocol)
    return start + num_bytes * rest


def seconds_per_byte(num_bytes, found, per_byte, cluster, algorithm, protocol):
    """Return the seconds for each byte: those of the busiest edge, and what a protocol adds."""
    generation = cluster.board.generation
    if algorithm == "nvls_tree":
        most = sum(found.counts) / found.num_nodes
        most *= nccl.IN_SWITCH_TREE_RATE[generation][found.num_nodes > 2]
        return max(per_byte, bus_factor("all_reduce", sum(found.counts)) / most)
    if algorithm == "nvls":
        return per_byte
    kind = "tree" if algorithm == "tree" else "ring"
    per_byte /= nccl.efficiency(kind, protocol, found.num_nodes)
    if protocol == "LL" and algorithm != "direct":
        cap = nccl.ll_rate(generation, cluster.cpu, found.num_nodes)
        per_byte = max(per_byte, found.bus_bytes / cap)
    if kind == "tree":
        per_byte /= nccl.tree_correction(protocol, num_bytes)
    return per_byte


def latency(collective, num_bytes, found, cluster, algorithm, protocol):
    """Return the seconds that all steps take without their bytes."""
    if algorithm in IN_SWITCH:
        across = nccl.IN_SWITCH_NET_LATENCY + _switches(found, cluster)
        return nccl.IN_SWITCH_LATENCY + found.across * across
    kind = "tree" if algorithm == "tree" else "ring"
    inside = nccl.STEP_LATENCY[cluster.board.hardware][kind][protocol]
    post = nccl.post_overhead(protocol, cluster.cpu)
    if kind == "ring" and found.num_nodes > 1:
        inside = max(inside, post)
    # With one member on each node every step crosses, and takes as long as in a tree.
    alone = max(found.counts) == 1
    across = nccl.STEP_LATENCY["net"]["tree" if alone else kind][protocol]
    across += _switches(found, cluster)
    steps = found.inside * inside + found.across * across + max(found.posts - 1, 0) * post
    return (nccl.BASE_LATENCY[kind][protocol] + steps) * _plateau(
        collective, num_bytes, found, cluster, algorithm, protocol
    )


def _plateau(collective, num_bytes, found, cluster, algorithm, protocol):
    sums_over_nodes = collective == "all_reduce" and found.num_nodes > 1
    if (algorithm, protocol) != ("ring", "Simple") or not sums_over_nodes:
        return 1.0
    board = cluster.board
    return nccl.plateau(board.generation, board.channels, num_bytes, sum(found.counts))


def _switches(found, cluster):
    return found.levels * cluster.network.latency if found.levels else 0.0
