"""Which calls of ranks belong together: the collectives and messages that have not started."""

import itertools

from simgpu.ranks.communication.collective import Collective
from simgpu.ranks.communication.order.launch_order import check_order
from simgpu.ranks.process.call_counts import CallCounts


class Matching:
    """The collectives and messages that ranks have called and that have not started.

    Parameters
    ----------
    present : container of int
        The ranks that run.
    communication : CommunicationScheduler
        Schedules what all ranks have called.

    Attributes
    ----------
    incomplete : dict
        Those that some of their ranks have not called, by key.
    complete : list of Collective
        Those that all of their ranks have called.
    calls : CallCounts
        How often ranks have called which collectives.
    """

    def __init__(self, present, communication):
        self._present, self._communication = present, communication
        self.incomplete, self.complete, self.calls = {}, [], CallCounts()
        self._numbers = itertools.count()

    def join(self, call, part) -> Collective:
        """Add one rank's part to the collective of its call; return that.

        Raises
        ------
        RanksError
            If the part does not match those of other ranks.
        """
        key, incomplete = call.key, self.incomplete
        found = incomplete.get(key)
        if found is None:
            present = [rank for rank in call.members if rank in self._present]
            found = incomplete[key] = Collective(
                call.what, call.members, present, call.num_bytes, call.compute, call.root
            )
        found.num_bytes = max(found.num_bytes, call.num_bytes)
        part.number = next(self._numbers)
        is_message, device = found.is_message, part.device
        if not is_message:  # members of a group call a collective equally often
            self.calls.add(found.members, part.line, part.rank)
        if device is not None:
            self._communication.queues.add(found, part)
            device.connections.add(found.what.collective, key[0], found.members)
        found.join(part, self.calls)
        if len(incomplete) > 1 and device is not None and not is_message:
            check_order(key, part.rank, incomplete)
        if not found.missing():
            del incomplete[key]
            if not found.scheduled:
                self.complete.append(found)
        return found

    def schedule(self, horizon) -> bool:
        """Follow collectives that all their ranks have called; return whether any has ended."""
        self.complete, ended = self._communication.schedule(self.complete, horizon)
        return bool(ended)
