"""When communication runs: settled when no rank can go on without knowing.

By then all ranks have issued what they can, so what runs at the same time is known at the same
time, and shares wires (``wires.py``) whichever rank came first.
"""

import math

from simgpu.ranks.communication import costs
from simgpu.ranks.communication.links import Flow, Wires


class Settling:
    """Settles the meetings of one job.

    Parameters
    ----------
    machine : Machine
        On which its ranks run.
    cluster : Cluster
        Of which this machine is all, or a part.
    folding : Folding
        For whom these ranks stand.
    """

    def __init__(self, machine, cluster, folding):
        self._machine, self._cluster, self._folding = machine, cluster, folding
        self._wires = Wires()
        self._shares = {}  # of edges, by what keeps them busy

    def settle(self, meetings, horizon) -> None:
        """Find when meetings run to which all ranks have come.

        Parameters
        ----------
        meetings : list of Meeting
            In the order in which the last of their ranks have come.
        horizon : float
            No later meeting starts before this moment.
        """
        waiting, active, flows, now = list(meetings), {}, [], -math.inf
        while waiting or active:
            for meeting in _first_of_streams(waiting, active.values()):
                waiting.remove(meeting)
                flows.append(self._flow(meeting))
                active[flows[-1]] = meeting
            now, ended = self._wires.advance(list(active), now)
            for flow in ended:
                with self._machine.lock:
                    active.pop(flow).settle(flow.ready, now, flow.cost, self._machine)
        self._wires.book(flows, horizon)

    def _flow(self, meeting):
        root = meeting.members[meeting.root]
        members = meeting.members
        if meeting.root:
            members = (root, *(rank for rank in members if rank != root))
        collective = meeting.what.collective
        cost = costs.cost(collective, meeting.num_bytes, members, self._cluster)
        key = cost.collective, cost.algorithm, members
        if key not in self._shares:
            alike = self._folding.alike(members)
            shares = costs.shares(cost, members, alike, self._cluster)
            self._shares[key] = self._folding.near(shares, self._cluster)
        return Flow(meeting.ready(), cost, self._shares[key])


def _first_of_streams(waiting, active):
    """Return the meetings that have no other before them in any of their streams."""
    held = set().union(*(meeting.streams for meeting in active))
    found = []
    for meeting in waiting:
        if held.isdisjoint(meeting.streams):
            found.append(meeting)
        held |= meeting.streams
    return found
