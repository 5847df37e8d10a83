"""What a collective or a message costs, and which wires it keeps busy.

The only place that knows: it asks `simgpu.network.collective_costs`.
"""

from simgpu.network.collective_costs import Cost
from simgpu.network.collective_costs import cost as cost_on_cluster
from simgpu.network.traffic import plan

HOST_SECONDS = 50e-6  # of one collective on host tensors, which are small
_AS = {"barrier": "all_reduce"}  # NCCL has no barrier


def cost(collective, num_bytes, members, cluster) -> Cost:
    """Return what a collective or a message costs that has the wires for itself.

    Parameters
    ----------
    collective : str
        ``"all_reduce"``, ``"all_gather"``, ... or ``"send"``.
    num_bytes : int
        Its size as nccl-tests counts: what an all_gather returns, what a reduce_scatter is given.
    members : tuple of int
        The ranks that take part; the root, or the sender, first.
    cluster : Cluster
        On which they run.

    Examples
    --------
    >>> from simgpu.network import find_cluster
    >>> found = cost("broadcast", 2**30, (3, 0, 1, 2), find_cluster("dgx-a100"))
    >>> found.algorithm, found.num_members
    ('ring', 4)
    """
    return cost_on_cluster(_AS.get(collective, collective), num_bytes, members, cluster)


def shares(cost, members, alike, cluster) -> dict:
    """Return which share of each of its edges a collective keeps busy at full speed.

    Parameters
    ----------
    cost : Cost
        Of the collective.
    members : tuple of int
        As for `cost`.
    alike : list of tuple of int
        Members of groups that do the same at the same time; on the edges of the first, what they
        use is added, and the sum may be above 1.
    cluster : Cluster

    Returns
    -------
    dict
        Edge (see ``traffic.py``) -> share.
    """
    if cost.plan is None:
        return {}
    groups = [members, *alike]
    plans = [plan(cost.collective, cost.algorithm, group, cluster).edges for group in groups]
    return {
        edge: sum(edges.get(edge, 0.0) for edges in plans) / cost.plan.slowest for edge in plans[0]
    }
