"""Which algorithms and protocols NCCL has for a collective, and which fit the members."""

import functools
from collections import Counter

from simgpu.network import nccl_parameters as nccl

ALGORITHMS = ("ring", "tree", "nvls", "nvls_tree", "hierarchical", "direct")
# NCCL keeps the ring for up to 4 GPUs: NVIDIA/nccl issue 1455, 365 to 370 GB/s from 2 to 4.
IN_SWITCH_FROM = 5
_SCATTERED = ("all_reduce", "all_gather", "reduce_scatter")
DIRECT = ("all_to_all", "gather", "scatter", "send")


@functools.lru_cache(maxsize=4096)
def members_by_node(members, cluster):
    """Return how many members each node has."""
    return tuple(Counter(cluster.node(rank) for rank in members).values())


def choices(collective, members, cluster):
    """Return the algorithms that NCCL would consider."""
    if collective in DIRECT:
        return ("direct",)
    if collective != "all_reduce":
        return ("ring",)
    if not cluster.board.in_switch:
        return ("ring", "tree")
    counts = members_by_node(members, cluster)
    if len(counts) > 1:
        return ("ring", "tree", "nvls_tree") if min(counts) > 1 else ("ring", "tree")
    return ("ring", "tree", "nvls") if len(members) >= IN_SWITCH_FROM else ("ring", "tree")


def check_algorithm(collective, algorithm, members, cluster):
    """Refuse an algorithm that cannot run the collective on these members, and say why."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"unknown algorithm {algorithm!r}; give one of {', '.join(ALGORITHMS)}")
    counts = members_by_node(members, cluster)
    obstacle = _wrong_collective(collective, algorithm) or _wrong_place(algorithm, counts, cluster)
    if obstacle:
        raise ValueError(f"{collective} cannot run as {algorithm!r}: {obstacle}")


def _wrong_collective(collective, algorithm):
    """Return why `algorithm` never runs `collective`, None if it can."""
    if collective in DIRECT:
        return None if algorithm == "direct" else "its data go from one to another; use 'direct'"
    if algorithm == "direct":
        return "its data are passed on; use 'ring'"
    if algorithm == "hierarchical" and collective not in _SCATTERED:
        return "it has no part for each member; use 'ring'"
    if algorithm in ("tree", "nvls", "nvls_tree") and collective != "all_reduce":
        return "it sums to all; use 'ring'"
    return None


def _wrong_place(algorithm, counts, cluster):
    """Return why `algorithm` does not fit members on these nodes, None if it does."""
    if algorithm in ("nvls", "nvls_tree") and not cluster.board.in_switch:
        return f"the {cluster.board.name} has no switch that sums; use 'ring'"
    if algorithm == "nvls" and len(counts) > 1:
        return "a switch reaches one node; use 'nvls_tree'"
    if algorithm == "nvls_tree" and len(counts) == 1:
        return "there is one node; use 'nvls'"
    if algorithm == "hierarchical" and len(counts) == 1:
        return "there is one node; use 'ring'"
    if algorithm == "hierarchical" and len(set(counts)) > 1:
        return "nodes have different numbers of members; use 'ring'"
    return None


def protocols(algorithm, cluster):
    """Return the protocols that an algorithm has on a cluster."""
    if algorithm in ("nvls", "nvls_tree"):
        return ("Simple",)
    if algorithm == "direct":
        return ("LL", "Simple")
    # LL128 relies on stores of 128 bytes that arrive whole, which PCIe does not promise.
    return nccl.PROTOCOLS if cluster.board.hardware == "nvlink" else ("LL", "Simple")
