"""The cost of a collective or message, and the links that it occupies.

Delegates to `simgpu.network.collective_costs`; all costs of communication go through here.
"""

from simgpu.network.collective_costs import Cost
from simgpu.network.collective_costs import cost as cost_on_cluster
from simgpu.network.traffic import equal_size, plan

HOST_SECONDS = 50e-6  # duration of a collective on host tensors, which are small
_AS = {"barrier": "all_reduce"}  # NCCL has no barrier


def cost(collective, num_bytes, members, cluster, ranks=None, parts=None) -> Cost:
    """Return the cost of a collective or message that shares its links with no other.

    Parameters
    ----------
    collective : str
        ``"all_reduce"``, ``"all_gather"``, ... or ``"send"``.
    num_bytes : int
        Its size as nccl-tests counts it: the output of all_gather, the input of reduce_scatter.
    members : tuple of int
        The ranks that take part; the root, or the sender, first.
    cluster : Cluster
        The hardware.
    ranks : int, optional
        Size of the communicator of a message; default: 2.
    parts : tuple of tuple of int, optional
        Of an all-to-all of unequal parts: bytes from each member to each, instead of `num_bytes`.

    Examples
    --------
    >>> from simgpu.network import find_cluster
    >>> found = cost("broadcast", 2**30, (3, 0, 1, 2), find_cluster("dgx-a100"))
    >>> found.algorithm, found.num_members
    ('ring', 4)
    """
    if collective == "send" and len(members) == 1:  # to itself: takes as long as any such call
        collective = "all_to_all"
    if parts is not None:
        num_bytes = equal_size(parts, members, cluster)
    kind = _AS.get(collective, collective)
    return cost_on_cluster(kind, num_bytes, members, cluster, ranks=ranks)


def shares(cost, members, replicas, cluster) -> dict:
    """Return the share of each of its edges that a collective occupies at full speed.

    Parameters
    ----------
    cost : Cost
        Cost of the collective.
    members : tuple of int
        As for `cost`.
    replicas : list of tuple of int
        Members of groups that do the same at the same time. Their use of the edges of `members` is
        added, so that a share may exceed 1.
    cluster : Cluster

    Returns
    -------
    dict
        Edge (see ``traffic.py``) -> share.
    """
    if cost.plan is None:
        return {}
    groups = [members, *replicas]
    plans = [plan(cost.collective, cost.algorithm, group, cluster).edges for group in groups]
    full = cost.plan.slowest / cost.wire_share
    return {edge: sum(edges.get(edge, 0.0) for edges in plans) / full for edge in plans[0]}
