"""Schedule communication: Note [When communication runs] of `simgpu.ranks`."""

import math

from simgpu.ranks.communication import costs
from simgpu.ranks.communication.links import Links, Transfer


class CommunicationScheduler:
    """Schedules the collectives of one world.

    Parameters
    ----------
    machine : Machine
        The machine of its ranks.
    cluster : Cluster
        The whole cluster; with folding, only some of its ranks run on the machine.
    folding : Folding
        Which ranks represent which.
    """

    def __init__(self, machine, cluster, folding):
        self._machine, self._cluster, self._folding = machine, cluster, folding
        self._links = Links()
        self._shares = {}  # of edges, by collective, algorithm and members

    def schedule(self, collectives, horizon) -> None:
        """Set the times of collectives that all their ranks have called.

        Parameters
        ----------
        collectives : list of Collective
            In the order in which the last of their ranks called them.
        horizon : float
            Later collectives start at this time at the earliest.
        """
        waiting, active, transfers, now = list(collectives), {}, [], -math.inf
        while waiting or active:
            for collective in _first_of_streams(waiting, active.values()):
                waiting.remove(collective)
                transfers.append(self._transfer(collective))
                active[transfers[-1]] = collective
            now, ended = self._links.advance(list(active), now)
            for transfer in ended:
                with self._machine.lock:
                    collective = active.pop(transfer)
                    collective.schedule(transfer.ready, now, transfer.cost, self._machine)
        self._links.reserve(transfers, horizon)

    def _transfer(self, collective):
        members = collective.members
        if collective.root:
            root = members[collective.root]
            members = (root, *(rank for rank in members if rank != root))
        kind, num_bytes = collective.what.collective, collective.num_bytes
        cost = costs.cost(kind, num_bytes, members, self._cluster)
        key = cost.collective, cost.algorithm, members
        if key not in self._shares:
            replicas = self._folding.replicas(members)
            shares = costs.shares(cost, members, replicas, self._cluster)
            self._shares[key] = self._folding.at_running_ranks(shares, self._cluster)
        return Transfer(collective.ready(), cost, self._shares[key])


def _first_of_streams(waiting, active):
    """Return the collectives that are first in all of their streams."""
    occupied = set().union(*(collective.streams for collective in active))
    found = []
    for collective in waiting:
        if occupied.isdisjoint(collective.streams):
            found.append(collective)
        occupied |= collective.streams
    return found
