"""One collective or message: the matching calls of several ranks.

Every rank issues its part when its program gets there; the last part computes the values
(``values.py``). Times are found later: Note [When communication runs] of `simgpu.ranks`.
"""

import math
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import _disable_current_modes

from simgpu.backend.operations.known_values import overwrite
from simgpu.backend.tensor import SimTensor
from simgpu.clock.streams import Stream
from simgpu.clock.trace import COMM, Communication
from simgpu.ranks.communication import costs, folding
from simgpu.ranks.communication.checks.pairs import check_pairs
from simgpu.ranks.communication.order.batch import Batch
from simgpu.ranks.process.scheduler import RanksError


@dataclass
class Participant:
    """One rank's part in a collective.

    Attributes
    ----------
    rank : int
        The global rank.
    line : str
        Line of the program that makes the call.
    given, filled : list of torch.Tensor
        The inputs and the outputs.
    name, same : str
        The call in words, and the part of it that must be the same on all ranks.
    device : Device or None
        Device of the tensors; None: the host.
    stream : Stream or None
        Stream of the collective.
    ready : float
        Time from which this rank allows it to start, in seconds.
    number : int
        Of the call, counted over all ranks.
    batch : Batch or None
        The batch of messages that it is part of.
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
    number: int = 0
    batch: Batch | None = None

    def earliest(self) -> float:
        """Return the time from which this rank and its stream allow it to start, in seconds."""
        if self.stream is None:
            return self.ready
        if self.batch is None:
            return max(self.ready, self.stream.end)
        after = self.stream.end if self.batch.after is None else self.batch.after
        return max(self.batch.ready, after)

    def end(self, end) -> None:
        """Record in the stream that it ends at the time `end`."""
        if self.batch is not None and self.batch.after is None:
            self.batch.after = self.stream.end
        self.stream.end = max(self.stream.end, end)


@dataclass(eq=False)
class Collective:
    """One collective or message, and the ranks that have called it.

    Attributes
    ----------
    what : Communication
        Its description in the trace.
    members : tuple of int
        The ranks that take part, in the order of the group; of a message, sender and receiver.
    present : list of int
        The members that run.
    num_bytes : int
        Size that determines its cost, see `costs.cost`.
    compute : callable or None
        ``compute(given, filled)`` over lists of all ranks; None: nothing to compute.
    root : int
        Index of the root, or the sender, in `members`.
    parts : tuple of tuple of int or None
        Of an all-to-all of unequal parts whose members all run: bytes from each member to each.
    scheduled : bool
        Whether its end is known.
    end : float
        Its end, in seconds.
    """

    what: Communication
    members: tuple
    present: list
    num_bytes: int
    compute: object
    root: int = 0
    parts: tuple | None = None
    participants: dict = field(default_factory=dict)
    scheduled: bool = False
    end: float = math.inf

    def missing(self) -> list[int]:
        """Return the ranks that have not called it yet."""
        return [rank for rank in self.present if rank not in self.participants]

    @property
    def is_message(self) -> bool:
        """Whether it has one sender and one receiver."""
        return self.what.name == "send"

    def join(self, participant, calls) -> None:
        """Add one rank's part; if it is the last, compute the results.

        Parameters
        ----------
        participant : Participant
        calls : CallCounts
            The calls that ranks have made, for errors.

        Raises
        ------
        RanksError
            If the part does not match those of other ranks.
        """
        for other in self.participants.values():
            if other.same != participant.same:
                raise RanksError(self._mismatch(participant, other, calls))
            break  # the others have been compared with the first
        self.participants[participant.rank] = participant
        if len(self.participants) == len(self.present):
            self._compute_values(on_host=participant.device is None)

    def _mismatch(self, one, other, calls):
        rule = (
            "messages between two ranks match in the order of the calls (NCCL ignores tags), and "
            "both sides must give one type, size and tag, and be in a batch or neither"
            if self.is_message
            else "all ranks of a group must make the same calls in the same order, with tensors of "
            "one type and size"
        )
        compared = [
            calls.compare(self.members, line, (other.rank, one.rank))
            for line in dict.fromkeys((other.line, one.line))
        ]
        what = (
            f"rank {one.rank} calls {one.same} ({one.line}) where rank {other.rank} called "
            f"{other.same} ({other.line})"
        )
        return "; ".join([what, *filter(None, compared), rule])

    def _compute_values(self, on_host):
        if len(self.participants) == len(self.members):
            participants = [self.participants[rank] for rank in self.members]
            check_pairs(self.what.name, participants)
            if self.what.name == "all_to_all":
                self.parts = _unequal([part.given for part in participants])
        if self.compute is not None:
            _compute(self.compute, self.members, self.participants)
        for participant in self.participants.values():
            participant.given = participant.filled = ()  # free their memory
        if on_host:
            self.scheduled, self.end = True, self.ready() + costs.HOST_SECONDS

    def ready(self) -> float:
        """Return the time at which all ranks and streams are ready for it, in seconds."""
        return max(part.earliest() for part in self.participants.values())

    def schedule(self, transfer, machine) -> None:
        """Set when it runs, and reserve what it takes from kernels."""
        cost, start, end = transfer.cost, transfer.ready, transfer.followed_to
        self.scheduled, self.end = True, end
        multiprocessors = cost.sm_share(machine.gpu)
        memory = cost.memory_share(machine.gpu, end - start)
        for rank in self.present:
            part = self.participants[rank]
            device, number = part.device, part.stream.number
            joined = part.earliest()
            device.contention.add_collective(joined, start, end, multiprocessors, memory)
            part.end(end)
            if machine.trace.joined is not None:
                machine.trace.joined[len(machine.trace)] = joined
            machine.trace.add(
                device.row, COMM, number, self.what, start, end - start, 0, self.num_bytes
            )


def _unequal(given):
    """Return the bytes of each tensor that each member gives; None if all are equal."""
    parts = tuple(tuple(tensor.nbytes for tensor in tensors) for tensors in given)
    return parts if len({size for sizes in parts for size in sizes}) > 1 else None


def _compute(compute, members, participants):
    parts = list(participants.values())
    tensors = [tensor for part in parts for tensor in (*part.given, *part.filled)]
    known = not any(_values(tensor).device.type == "meta" for tensor in tensors)
    for output in (tensor for part in parts for tensor in part.filled):
        if isinstance(output, SimTensor):
            overwrite(output, known)
    if not known:
        return  # shapes only
    given, filled = folding.tensors_of_members(members, participants)
    given = [list(map(_values, tensors)) for tensors in given]
    filled = [None if tensors is None else list(map(_values, tensors)) for tensors in filled]
    # The last rank computes for all; its modes must not matter.
    with torch.inference_mode(), _disable_current_modes():
        compute(given, filled)


def _values(tensor):
    return tensor._data if isinstance(tensor, SimTensor) else tensor.detach()
