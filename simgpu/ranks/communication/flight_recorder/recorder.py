"""The flight recorder of one rank: its last calls, and what PyTorch's analyser reads of them."""

from collections import deque
from dataclasses import dataclass, field

from simgpu.ranks.communication.flight_recorder.entries import Operands, parts

VERSION = "2.10"  # of PyTorch's format, as in FlightRecorder.hpp of 2.13
_MILLISECONDS = 600_000  # NCCL's time-out, unless a program asks for another one


@dataclass
class Group:
    """What a rank has called in one group.

    Attributes
    ----------
    name, desc : str
        As PyTorch gives them.
    members : tuple of int
    number : int
        How many groups the rank has used before.
    collectives, messages, calls : int
        How many it has called; the messages of a batch count once, as one message.
    """

    name: str
    desc: str
    members: tuple
    number: int
    collectives: int = 0
    messages: int = 0
    calls: int = 0


@dataclass
class Entry:
    """One call.

    Attributes
    ----------
    fields : dict
        What is known when the call is made, in PyTorch's words.
    frames : list of dict
        Its stack.
    part : Participant
        The part of the rank.
    collective : Collective, optional
        What it is a part of; None: it did not match.
    """

    fields: dict
    frames: list
    part: object
    collective: object = None

    def state(self, queues) -> dict:
        """Return how far it has come, in PyTorch's words.

        A kernel of NCCL starts when it is first in its stream, and waits for the other ranks there.
        """
        started = ended = None
        if self.collective is not None and self.collective.scheduled:
            started, ended = _nanoseconds(self.part.ready), _nanoseconds(self.collective.end)
        elif queues.is_first_part(self.part):
            started = _nanoseconds(self.part.ready)
        state = "scheduled" if started is None else "started" if ended is None else "completed"
        return {
            "state": state, "time_discovered_started_ns": started,
            "time_discovered_completed_ns": ended, "retired": ended is not None,
        }  # fmt: skip


@dataclass
class Recorder:
    """The last calls of a rank.

    Attributes
    ----------
    settings : Settings
    entries : deque of Entry
    groups : dict of tuple to Group
        By the key of the process group.
    """

    settings: object
    entries: deque = field(init=False)
    groups: dict = field(default_factory=dict)
    _count: int = 0
    _batch: object = None  # whose messages the last entries are

    def __post_init__(self):
        self.entries = deque(maxlen=self.settings.size)

    def note(self, call, part, seconds, frames) -> list[Entry]:
        """Add a call; return its entries.

        Parameters
        ----------
        call : Call
        part : Participant
            The rank's part in it.
        seconds : float
            The time on the rank's clock.
        frames : list of dict
            The stack.
        """
        group = self._group(call)
        if self._batch not in (None, part.batch):
            self._end_batch()
        return [self._add(group, *each, call, part, seconds, frames) for each in parts(call)]

    def _group(self, call):
        key = name, members = call.key[0]
        desc = call.what.group or ("default_pg" if name == "0" else "undefined")
        return self.groups.setdefault(key, Group(name, desc, members, len(self.groups)))

    def _add(self, group, name, inputs, outputs, call, part, seconds, frames):
        is_message = call.what.name == "send"
        if not is_message:
            group.collectives += 1
        elif part.batch is None or part.batch is not self._batch:
            group.messages += 1
        self._batch = part.batch
        return self._append(group, name, inputs, outputs, is_message, part, seconds, frames)

    def _append(self, group, name, inputs, outputs, is_message, part, seconds, frames):
        group.calls += 1
        fields = {
            "record_id": self._count, "pg_id": group.number,
            "process_group": (group.name, group.desc), "collective_seq_id": group.collectives,
            "p2p_seq_id": group.messages, "op_id": group.calls, "profiling_name": name,
            "time_created_ns": _nanoseconds(seconds), "input_sizes": inputs.sizes,
            "input_dtypes": inputs.dtypes, "output_sizes": outputs.sizes,
            "output_dtypes": outputs.dtypes, "timeout_ms": _MILLISECONDS, "is_p2p": is_message,
        }  # fmt: skip
        self._count += 1
        self.entries.append(Entry(fields, frames, part))
        return self.entries[-1]

    def _end_batch(self):
        """Add the entry by which PyTorch ends the messages of a batch."""
        last, self._batch = self.entries[-1], None
        group = next(g for g in self.groups.values() if g.number == last.fields["pg_id"])
        seconds = last.fields["time_created_ns"] / 1e9
        none = Operands()
        end = self._append(
            group, "nccl:coalesced", none, none, True, last.part, seconds, last.frames
        )
        end.collective = last.collective

    def dump(self, queues, collectives=True, stacks=True, only_active=False) -> dict:
        """Return what PyTorch's analyser reads.

        Parameters
        ----------
        queues : Queues
            In which calls wait for others.
        collectives, stacks, only_active : bool
            Whether there are entries, whether they have stacks, and whether those that have ended
            are left out.
        """
        if self._batch is not None:
            self._end_batch()
        found = [one.fields | one.state(queues) for one in self.entries]
        shown = [
            {"frames": one.frames} | fields if stacks else fields
            for one, fields in zip(self.entries, found, strict=True)
            if not (only_active and fields["retired"])
        ]
        return {
            "version": VERSION,
            "comm_lib_version": "",
            "pg_config": {g.name: _config(g) for g in self.groups.values()},
            "pg_status": {str(g.number): _status(g, found) for g in self.groups.values()},
        } | ({"entries": shown} if collectives else {})


def _config(group):
    return {"name": group.name, "desc": group.desc, "ranks": str(list(group.members))}


def _status(group, fields):
    """Return the numbers of the last collectives of a group that were called, began, and ended."""
    own = [one for one in fields if one["pg_id"] == group.number and not one["is_p2p"]]
    last = {
        state: max((one["collective_seq_id"] for one in own if one["state"] in of), default=0)
        for state, of in (
            ("started", ("started", "completed")), ("completed", ("completed",)),
        )
    }  # fmt: skip
    return {
        "last_enqueued_collective": group.collectives,
        "last_started_collective": last["started"],
        "last_completed_collective": last["completed"],
    }


def _nanoseconds(seconds):
    return round(seconds * 1e9)
