"""The algorithms and protocols that NCCL has for a collective and its members."""

import functools
from collections import Counter

from simgpu.network import nccl_parameters as nccl

ALGORITHMS = ("ring", "tree", "nvls", "nvls_tree", "hierarchical", "direct")
_SCATTERED = ("all_reduce", "all_gather", "reduce_scatter")
DIRECT = ("all_to_all", "gather", "scatter", "send")


@functools.lru_cache(maxsize=4096)
def members_by_node(members, cluster):
    """Return the number of members on each node that has any."""
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
    return ("ring", "tree", "nvls")


def check_algorithm(collective, algorithm, members, cluster):
    """Raise ValueError, with the reason, if `algorithm` cannot run the collective on `members`."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"unknown algorithm {algorithm!r}; give one of {', '.join(ALGORITHMS)}")
    counts = members_by_node(members, cluster)
    obstacle = _wrong_collective(collective, algorithm) or _wrong_place(algorithm, counts, cluster)
    if obstacle:
        raise ValueError(f"{collective} cannot run as {algorithm!r}: {obstacle}")


def _wrong_collective(collective, algorithm):
    """Return why `algorithm` cannot run `collective`; None if it can."""
    if collective in DIRECT:
        return None if algorithm == "direct" else "it sends directly between pairs; use 'direct'"
    if algorithm == "direct":
        return "its members forward data to each other; use 'ring'"
    if algorithm == "hierarchical" and collective not in _SCATTERED:
        return "its data have no part for each member; use 'ring'"
    if algorithm in ("tree", "nvls", "nvls_tree") and collective != "all_reduce":
        return "that algorithm runs all_reduce only; use 'ring'"
    return None


def _wrong_place(algorithm, counts, cluster):
    """Return why `algorithm` cannot run with `counts` members per node; None if it can."""
    if algorithm in ("nvls", "nvls_tree") and not cluster.board.in_switch:
        return f"the {cluster.board.name} has no switch that reduces; use 'ring'"
    if algorithm == "nvls" and len(counts) > 1:
        return "a switch connects one node only; use 'nvls_tree'"
    if algorithm == "nvls_tree" and len(counts) == 1:
        return "all members are on one node; use 'nvls'"
    if algorithm == "hierarchical" and len(counts) == 1:
        return "all members are on one node; use 'ring'"
    if algorithm == "hierarchical" and len(set(counts)) > 1:
        return "nodes have different numbers of members; use 'ring'"
    return None


def protocols(algorithm, num_nodes, cluster):
    """Return the protocols that an algorithm can use over `num_nodes` nodes of a cluster."""
    if algorithm in ("nvls", "nvls_tree"):
        return ("Simple",)
    # LL128 needs 128-byte stores to arrive whole, which PCIe does not guarantee, and EFA neither.
    whole = cluster.board.hardware == "nvlink" and (num_nodes == 1 or cluster.network.ordered)
    return nccl.PROTOCOLS if whole else ("LL", "Simple")
