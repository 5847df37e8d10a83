"""Schedule communication: Note [When communication runs] of `simgpu.ranks`."""

from simgpu.ranks.communication import costs
from simgpu.ranks.communication.links import Links, Transfer
from simgpu.ranks.communication.order.queues import Queues


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

    Attributes
    ----------
    queues : Queues
        The calls that have not ended, in the order in which each rank made them.
    """

    def __init__(self, machine, cluster, folding):
        self._machine, self._cluster, self._folding = machine, cluster, folding
        self._links, self.queues = Links(), Queues()
        self._active = {}  # transfer -> its collective
        self._shares = {}  # of edges, by collective, algorithm, share and members

    def schedule(self, collectives, horizon) -> tuple:
        """Follow collectives until some of them end.

        Parameters
        ----------
        collectives : list of Collective
            Those that all their ranks have called and that have not started, in the order in which
            the last of their ranks called them.
        horizon : float
            Later collectives start at this time at the earliest.

        Returns
        -------
        list of Collective
            Those that have to wait for others which some of their ranks called before.
        list of Collective
            Those that have ended.
        """
        first = list(filter(self.queues.is_first, collectives))
        self._active.update((self._transfer(collective), collective) for collective in first)
        ended = []
        while self._active and not ended:
            ended = self._links.advance(list(self._active), horizon)
        for transfer in ended:
            with self._machine.lock:
                self._active[transfer].schedule(transfer, self._machine)
        ended = list(map(self._active.pop, ended))
        for collective in ended:
            self.queues.remove(collective)
        return [collective for collective in collectives if collective not in first], ended

    def _transfer(self, collective):
        members = collective.members
        if collective.root:
            root = members[collective.root]
            members = (root, *(rank for rank in members if rank != root))
        what = collective.what
        cost = costs.cost(
            what.collective, collective.num_bytes, members, self._cluster, what.ranks,
            collective.parts,
        )  # fmt: skip
        key = cost.collective, cost.algorithm, cost.wire_share, members
        if key not in self._shares:
            replicas = self._folding.replicas(members)
            shares = costs.shares(cost, members, replicas, self._cluster)
            self._shares[key] = self._folding.at_running_ranks(shares, self._cluster)
        return Transfer(collective.ready(), cost, self._shares[key])
