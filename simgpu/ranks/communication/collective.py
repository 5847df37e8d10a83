"""One collective or message: where the calls of several ranks come together.

Every rank issues its part when its program gets there; with the last one the values are known
(``values.py``). When it runs is found later: Note [When communication runs] of `simgpu.ranks`.
"""

import math
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import _disable_current_modes

from simgpu.backend.tensor import SimTensor
from simgpu.clock.streams import Stream
from simgpu.clock.trace import COMM, Communication
from simgpu.ranks.communication import costs, folding
from simgpu.ranks.process.scheduler import RanksError


@dataclass
class Participant:
    """One rank's part in a collective.

    Attributes
    ----------
    rank : int
        Of all ranks.
    line : str
        Line of the program that makes the call.
    given, filled : list of torch.Tensor
        What is read, and what is written.
    name, same : str
        The participant in words, and what must be the same on all ranks.
    device : Device or None
        Of the tensors; None: they are on the host.
    stream : Stream or None
        On which it runs.
    ready : float
        When this rank lets it start, in seconds.
    """

    rank: int
    line: str
    given: list
    filled: list
    name: str
    same: str
    device: object = None
    stream: Stream | None = None
    ready: float = 0.0


@dataclass(eq=False)
class Collective:
    """One collective or message, and the ranks that have called it.

    Attributes
    ----------
    what : Communication
        What the trace says of it.
    members : tuple of int
        The ranks that take part, in the order of the group; of a message sender and receiver.
    present : list of int
        Those of them that run.
    num_bytes : int
        By which it is charged, see `costs.cost`.
    compute : callable or None
        ``compute(given, filled)`` over lists of all ranks; None: nothing is computed.
    root : int
        Place of the root, or the sender, among the members.
    scheduled : bool
        Whether it is known when it ends.
    end : float
        When that is, in seconds.
    """

    what: Communication
    members: tuple
    present: list
    num_bytes: int
    compute: object
    root: int = 0
    participants: dict = field(default_factory=dict)
    scheduled: bool = False
    end: float = math.inf

    def missing(self) -> list[int]:
        """Return the ranks that have not come."""
        return [rank for rank in self.present if rank not in self.participants]

    @property
    def streams(self) -> set:
        """On which it runs."""
        return {participant.stream for participant in self.participants.values()}

    def join(self, participant) -> None:
        """Add one rank's part; if it is the last, compute what comes out.

        Raises
        ------
        RanksError
            If it does not match the parts of other ranks.
        """
        for other in self.participants.values():
            if other.same != participant.same:
                raise RanksError(
                    f"rank {participant.rank} calls {participant.same} ({participant.line}) where "
                    f"rank {other.rank} called {other.same} ({other.line}); all ranks of a group "
                    "must make the same calls in the same order, with tensors of one type and size"
                )
            break  # all the others are like the first
        self.participants[participant.rank] = participant
        if len(self.participants) == len(self.present):
            self._compute_values(on_host=participant.device is None)

    def _compute_values(self, on_host):
        if self.compute is not None:
            _compute(self.compute, *folding.everyone(self.members, self.participants))
        for participant in self.participants.values():
            participant.given = participant.filled = ()  # their memory may go now
        if on_host:
            self.scheduled, self.end = True, self.ready() + costs.HOST_SECONDS

    def ready(self) -> float:
        """Return the moment from which all ranks and streams let it start, in seconds."""
        parts = self.participants.values()
        ends = (part.stream.end for part in parts if part.stream is not None)
        return max([*(part.ready for part in parts), *ends])

    def schedule(self, start, end, cost, machine) -> None:
        """Enter when it runs, and what it then takes from kernels."""
        self.scheduled, self.end = True, end
        multiprocessors = cost.sm_share(machine.gpu)
        memory = cost.memory_share(machine.gpu, end - start)
        for rank in self.present:
            part = self.participants[rank]
            device, stream = part.device, part.stream
            device.contention.add(max(part.ready, stream.end), start, multiprocessors, 0.0)
            device.contention.add(start, end, multiprocessors, memory)
            stream.end = max(stream.end, end)
            machine.trace.add(
                device.row, COMM, stream.number, self.what, start, end - start, 0, self.num_bytes
            )


def _compute(compute, given, filled):
    given = [list(map(_values, tensors)) for tensors in given]
    filled = [None if tensors is None else list(map(_values, tensors)) for tensors in filled]
    tensors = [t for tensors in given + filled if tensors for t in tensors]
    if any(t.device.type == "meta" for t in tensors):
        return  # shapes only
    # The last rank computes for all, whatever modes it is in.
    with torch.inference_mode(), _disable_current_modes():
        compute(given, filled)


def _values(tensor):
    return tensor._data if isinstance(tensor, SimTensor) else tensor.detach()
