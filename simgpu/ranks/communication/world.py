"""The state that the ranks of one `spawn` share: machine, scheduler, and communication."""

import itertools

from simgpu import user_frame
from simgpu.backend.tensor import SimTensor
from simgpu.clock.hooks import hooks
from simgpu.clock.streams import Stream
from simgpu.races import detector as races
from simgpu.ranks.communication.collective import Collective, Participant
from simgpu.ranks.communication.in_flight import InFlight
from simgpu.ranks.communication.launch_order import check_order
from simgpu.ranks.communication.order.crossing import hints
from simgpu.ranks.communication.work import SimWork
from simgpu.ranks.process.call_counts import CallCounts
from simgpu.ranks.process.scheduler import MAX_LINES, RanksError
from simgpu.ranks.process.store import Contents


class World:
    """The ranks of one `spawn`.

    Attributes
    ----------
    scheduler : CooperativeScheduler
        Its `running` is the current rank.
    machine : Machine
        Its device number ``rank.index`` is that of `rank`.
    store_values : Contents
        Those of the store that the ranks share.
    servers, files, stores : dict, dict, list
        The stores that programs make: by port, by file, and all of them.
    communication : CommunicationScheduler
        Schedules collectives.
    messages : list of Messages
        Those of every group and rank.
    unmet : set of tuple
        Group, rank and peer: of a first message, until the peer makes its first one.
    checks : bool
        Whether the run only finds out which ranks do the same, so that its outputs are not needed.
    """

    def __init__(self, scheduler, machine, communication, checks):
        self.scheduler, self.machine, self.communication = scheduler, machine, communication
        self.store_values = Contents()
        self.servers, self.files, self.stores = {}, {}, []
        self._numbers = itertools.count()
        self.messages, self.unmet = [], set()
        self.checks = checks
        self._incomplete = {}  # key -> collective that some of its ranks have not called
        self._complete = []  # collectives that all have called, but that have not started
        self._in_flight = InFlight()
        self._pending = {}  # stream -> works that no wait() has covered, in order
        self._issued = {}  # rank -> collectives issued since its last kernel
        self._callback_streams = {}
        self._calls = CallCounts()
        scheduler.explain_deadlock = self._explain
        scheduler.on_end, scheduler.on_stall = self._check_ending, self._schedule_next

    @property
    def rank(self):
        """The current rank."""
        return self.scheduler.running

    def own_index(self) -> int:
        """Return the index of the current rank's device."""
        return self.rank.index

    def index_of(self, index) -> int:
        """Return the index of the device that the current rank's program calls ``sim:{index}``.

        The rank's own device has two numbers: its index on the machine, and its local rank.
        """
        rank = self.rank
        if hooks.renumber is not None and index not in (rank.local, rank.index):
            hooks.renumber(rank, index)
        return rank.index if index == rank.local else index

    def issue(
        self, key, collective, name, given, filled, outputs, stream, same="", blocks_host=False,
        batch=None,
    ):  # fmt: skip
        """Issue the current rank's part of a collective or message.

        Parameters
        ----------
        key
            Identifies the collective; the same for all of its parts.
        collective : tuple
            `what`, `members`, `num_bytes`, `compute` and `root` of the `Collective`, to create it
            for the first part.
        name : str
            The call, in words.
        given, filled : list of torch.Tensor
            The inputs and the outputs.
        outputs : list
            Return value of `SimWork.result`.
        stream : callable or None
            Maps a device to the stream on which to run; None: the current stream.
        same : str
            What must be equal on all ranks, in words; default: `name`.
        blocks_host : bool
            Whether the host waits for the end as well.
        batch : Batch, optional
            The calls of which it is one.

        Returns
        -------
        SimWork
        """
        device = self._device_of([*given, *filled])
        participant = Participant(
            self.rank.number, user_frame.line(), given, filled, name, same or name, device
        )
        if device is None:
            participant.ready = self.machine.host
            participant.same += " on the host"
        else:
            if hooks.before_communication is not None:
                hooks.before_communication(self.rank)
            self._launch(participant, stream, batch, is_message=collective[0].name == "send")
        found = self._incomplete.get(key)
        if found is None:
            what, members, *rest = collective
            present = [rank for rank in members if rank in self.scheduler.by_number]
            found = self._incomplete[key] = Collective(what, members, present, *rest)
        found.num_bytes = max(found.num_bytes, collective[2])
        participant.number = next(self._numbers)
        if not found.is_message:  # members of a group call a collective equally often
            self._calls.add(found.members, participant.line, participant.rank)
        if device is not None:
            self.communication.queues.add(found, participant)
            device.connections.add(found.what.collective, key[0], found.members)
        found.join(participant, self._calls)
        if len(self._incomplete) > 1 and device is not None and not found.is_message:
            check_order(key, self.rank.number, self._incomplete)
        if not found.missing():
            del self._incomplete[key]
            if not found.scheduled:
                self._complete.append(found)
        if device is not None:
            self._issued.setdefault(self.rank, []).append(found)
            device.before_kernel = self._run_others_first
        work = SimWork(self, found, participant, outputs, blocks_host)
        if batch is not None:
            batch.add(work)
        if races.active is not None and device is not None:
            races.active.communicate(work, device, participant.stream, given, filled)
        if device is not None and stream is not None:
            self.begin(work, given, filled)
        return work

    def _device_of(self, tensors):
        """Return the device of the tensors, which must be the rank's; None: the host."""
        devices = {t._device if isinstance(t, SimTensor) else None for t in tensors}
        if len(devices) > 1:
            raise RanksError(
                f"rank {self.rank.number} communicates ({user_frame.line()}) tensors on "
                "different devices; move them to one device first"
            )
        device = devices.pop() if devices else None
        if device is not None and device.index != self.own_index():
            raise RanksError(
                f"rank {self.rank.number} communicates ({user_frame.line()}) a tensor on "
                f"{device.name}; a rank communicates tensors on its own device, here "
                f"{self.machine.devices[self.own_index()].name}"
            )
        return device

    def _launch(self, participant, stream, batch, is_message):
        """Charge the host for the launch; set the time from which this rank is ready."""
        device, name = participant.device, participant.name
        current = device.current_stream()
        participant.stream = current if stream is None else stream(device)
        participant.batch = batch if is_message else None
        self._in_flight.check(
            name, participant.given, participant.filled, participant.stream, participant.batch
        )
        is_first = batch is None or not batch.started  # NCCL launches the others of a batch with it
        gpu = device.gpu
        overhead = gpu.collective_launch_overhead if is_first else gpu.launch_overhead
        issued = self.machine.issue(name.split(" ")[0], participant.stream, overhead)
        participant.ready = max(issued, current.end)
        if participant.batch is not None:
            batch.ready = max(batch.ready, participant.ready)

    def _run_others_first(self):
        """Switch to ranks that can issue their parts: Note [Kernels beside a collective]."""
        rank = self.rank
        self.machine.devices[rank.index].before_kernel = None
        collectives = self._issued.pop(rank, ())
        self.scheduler.wait(lambda: all(m.scheduled for m in collectives), None, must_wait=False)

    def begin(self, work, reads, writes) -> None:
        """Add a work that a wait() has yet to cover."""
        work.world = self
        self._pending.setdefault(work.stream, []).append(work)
        self._in_flight.add(work, reads, writes)

    def writers(self, tensor) -> list:
        """Return the works in flight that write to the memory of a tensor."""
        return self._in_flight.writers(tensor)

    def wait_for(self, tensor) -> None:
        """Wait for communication in flight that writes to a tensor."""
        for work in self.writers(tensor):
            work.wait()

    def finish(self, work) -> None:
        """Remove a work after its wait, and all earlier ones in its stream."""
        works = self._pending.get(work.stream, ())
        if work in works:
            position = works.index(work) + 1
            # NCCL has one work for a batch, gloo one for each message: so wait for all of them.
            beside = [other for other in works[: position - 1] if other.batch is not None]
            for done in works[:position]:
                if done not in beside:
                    self._in_flight.remove(done)
            works[:position] = beside

    def wait_until_scheduled(self, devices) -> None:
        """Run other ranks until all communication issued on `devices` is scheduled."""
        for device in devices:
            for stream, works in list(self._pending.items()):
                if works and stream._device is device:
                    last = works[-1]
                    last.wait_until_scheduled()
                    self.finish(last)

    def callback_stream(self, device) -> Stream:
        """Return the stream of a device on which callbacks of futures run."""
        if device not in self._callback_streams:
            self._callback_streams[device] = Stream.of(device)
        return self._callback_streams[device]

    def close(self) -> None:
        """Remove all works and all hooks before kernels."""
        for works in self._pending.values():
            for work in works:
                self._in_flight.remove(work)
        self._pending.clear()
        for device in self.machine.devices:
            device.before_kernel = None

    def _schedule_next(self):
        """Follow collectives that all their ranks have called; return whether any has ended."""
        clocks = [
            self.machine.host if rank is self.rank else rank.clock.now
            for rank in self.scheduler.ranks
            if not rank.ended
        ]
        horizon = min(clocks, default=0.0)
        self._complete, ended = self.communication.schedule(self._complete, horizon)
        return bool(ended)

    def _explain(self):
        """Describe calls that some ranks have made more often than others, and that cross."""
        incomplete, blocked = list(self._incomplete.values()), self._complete
        found = {
            self._calls.compare(collective.members, participant.line, collective.present): None
            for collective in incomplete
            for participant in collective.participants.values()
        }
        meetings = [(rank, peer) for _, rank, peer in self.unmet]
        queues = self.communication.queues
        return [*filter(None, found), *hints(incomplete, blocked, queues, meetings)]

    def _check_ending(self):
        """Raise an error if, at the end, calls have no counterpart or wait for each other."""
        while self._schedule_next():
            pass
        lines = [
            f"  rank {participant.rank} called {participant.name} ({participant.line}), but "
            f"rank {collective.missing()[0]} never made the matching call"
            for collective in self._incomplete.values()
            for participant in collective.participants.values()
        ]
        lines += [
            f"  rank {part.rank} called {part.name} ({part.line}), "
            f"{self.communication.queues.explain(collective)}"
            for collective in self._complete
            for part in collective.participants.values()
        ]
        lines += [f"  {text}" for messages in self.messages for text in messages.unmatched()]
        lines += [f"  {text}" for text in self._explain()]
        if lines:
            raise RanksError(
                "the program has ended with unmatched calls:\n" + "\n".join(lines[:MAX_LINES])
            )
