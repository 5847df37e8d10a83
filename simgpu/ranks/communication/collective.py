"""Where the calls of several ranks meet: one collective, or one message.

Every rank issues its part when its program gets there; with the last one it is known what comes out
(``values.py``). When it ends is settled later (``settling.py``).
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
class Call:
    """One rank's part.

    Attributes
    ----------
    rank : int
        Of the whole job.
    line : str
        Where the program calls it.
    given, filled : list of torch.Tensor
        What is read, and what is written.
    name, same : str
        The call in words, and what must be the same on all ranks.
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
class Meeting:
    """One collective or message, and the calls that have arrived.

    Attributes
    ----------
    what : Communication
        What the trace says of it.
    members : tuple of int
        The ranks that take part, in the order of the group; of a message sender and receiver.
    present : list of int
        Those that run.
    num_bytes : int
        By which it is charged, see `costs.cost`.
    compute : callable or None
        ``compute(given, filled)`` over lists of all ranks; None: nothing is computed.
    root : int
        Place of the root, or the sender, among the members.
    settled : bool
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
    calls: dict = field(default_factory=dict)
    settled: bool = False
    end: float = math.inf

    def missing(self) -> list[int]:
        """Return the ranks that have not come."""
        return [rank for rank in self.present if rank not in self.calls]

    @property
    def streams(self) -> set:
        """On which it runs."""
        return {call.stream for call in self.calls.values()}

    def join(self, call) -> None:
        """Add one rank's call; if it is the last, work out what comes out.

        Raises
        ------
        RanksError
            If it does not fit those that have come before.
        """
        for other in self.calls.values():
            if other.same != call.same:
                raise RanksError(
                    f"rank {call.rank} calls {call.same} ({call.line}) where rank {other.rank} "
                    f"called {other.same} ({other.line}); all ranks of a group must make the "
                    "same calls in the same order, with tensors of one type and size"
                )
            break  # all the others are like the first
        self.calls[call.rank] = call
        if len(self.calls) == len(self.present):
            self._complete()

    def _complete(self):
        if self.compute is not None:
            _compute(self.compute, *folding.everyone(self.members, self.calls))
        for call in self.calls.values():
            call.given = call.filled = ()  # their memory may go now
        if call.device is None:
            self.settled, self.end = True, self.ready() + costs.HOST_SECONDS

    def ready(self) -> float:
        """Return when all ranks and streams let it start."""
        calls = self.calls.values()
        ends = (call.stream.end for call in calls if call.stream is not None)
        return max([*(call.ready for call in calls), *ends])

    def settle(self, start, end, cost, machine) -> None:
        """Take note of when it runs, and of what it then takes from kernels."""
        self.settled, self.end = True, end
        multiprocessors = cost.sm_share(machine.gpu)
        memory = cost.memory_share(machine.gpu, end - start)
        for rank in self.present:
            call = self.calls[rank]
            contention = call.device.contention
            contention.add(max(call.ready, call.stream.end), start, multiprocessors, 0.0)
            contention.add(start, end, multiprocessors, memory)
            call.stream.end = max(call.stream.end, end)
            machine.trace.add(
                call.device.row, COMM, call.stream.number, self.what, start, end - start, 0,
                self.num_bytes,
            )  # fmt: skip


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
