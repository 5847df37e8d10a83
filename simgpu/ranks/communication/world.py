"""The state that the ranks of one `spawn` share: machine, scheduler, and communication."""

from simgpu import user_frame
from simgpu.backend import unwritten
from simgpu.clock.hooks import hooks
from simgpu.races import detector as races
from simgpu.ranks.communication.collective import Participant
from simgpu.ranks.communication.flight_recorder.recorders import Recorders
from simgpu.ranks.communication.launch import device_of, launch
from simgpu.ranks.communication.matching import Matching
from simgpu.ranks.communication.messages import Meetings
from simgpu.ranks.communication.order.unmatched import explain, unmatched
from simgpu.ranks.communication.waiting.before_kernels import BeforeKernels
from simgpu.ranks.communication.waiting.pending import PendingWorks
from simgpu.ranks.communication.waiting.work import SimWork
from simgpu.ranks.process.scheduler import MAX_LINES, RanksError
from simgpu.ranks.process.store import Stores


class World:
    """The ranks of one `spawn`, and what they share.

    Attributes
    ----------
    scheduler : CooperativeScheduler
        Its `running` is the current rank.
    machine : Machine
        Its device number ``rank.index`` is that of `rank`.
    communication : CommunicationScheduler
        Schedules collectives.
    checks : bool
        Whether the run only finds out which ranks do the same, so that its outputs are not needed.
    stores : Stores
        Through which ranks find each other, and those that programs make.
    messages : list of Messages
        Those of every group and rank.
    meetings : Meetings
        First messages between two ranks.
    matching : Matching
        What ranks have called and what has not started.
    works : PendingWorks
        What the program has not waited for.
    recorders : Recorders
        The flight recorders of the ranks.
    """

    def __init__(self, scheduler, machine, communication, checks):
        self.scheduler, self.machine, self.communication = scheduler, machine, communication
        self.checks, self.stores = checks, Stores()
        self.messages, self.meetings = [], Meetings(scheduler)
        self.matching = Matching(scheduler.by_number, communication)
        self.works, self._before_kernels = PendingWorks(), BeforeKernels(scheduler, machine)
        self.recorders, self._mismatch = Recorders(self), None
        scheduler.explain_deadlock = lambda: self._explain() + self.recorders.write()
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

    def issue(self, call) -> SimWork:
        """Issue the current rank's part of a collective or message, and return its work.

        Parameters
        ----------
        call : Call

        Raises
        ------
        RanksError
            If the call is wrong, or does not match those of other ranks.
        """
        rank, given, filled = self.scheduler.running, call.given, call.filled
        device = device_of([*given, *filled], rank.number, self.machine.devices[rank.index])
        part = Participant(
            rank.number, user_frame.line(), given, filled, call.name, call.same or call.name, device
        )
        if device is None:
            part.ready = self.machine.host
            part.same += " on the host"
        else:
            if hooks.before_communication is not None:
                hooks.before_communication(rank)
            launch(part, call, self.machine, self.works.in_flight)
        collective = self._join(call, part)
        work = SimWork(self, collective, part, call.outputs, call.blocks_host)
        if call.batch is not None:
            call.batch.add(work)
        if device is not None:
            self._before_kernels.add(rank, device, collective)
            if unwritten.active is not None:
                unwritten.active.communicate(call.what.collective, given, filled)
            if races.active is not None:
                races.active.communicate(work, device, part.stream, given, filled)
            if call.stream is not None:
                self.works.begin(work, given, filled)
        return work

    def _join(self, call, part):
        entries = self.recorders.note(call, part)
        try:
            collective = self.matching.join(call, part)
        except RanksError as error:
            raise self._after_others(error) from None
        for entry in entries:
            entry.collective = collective
        return collective

    def _after_others(self, error):
        """Return an error between calls; before, other ranks go on, if they write their calls.

        On real GPUs they hang, each in its own call, and the analyser compares these.
        """
        if not self.recorders.is_on:
            return error
        is_first, self._mismatch = self._mismatch is None, self._mismatch or error
        self.scheduler.wait(lambda: False, lambda: "waits for ever", must_wait=not is_first)
        return RanksError("\n  ".join([str(error), *self.recorders.write()]))

    def close(self) -> None:
        """Remove all works and all hooks before kernels."""
        self.works.close()
        self._before_kernels.close()

    def _schedule_next(self):
        """Follow collectives that all their ranks have called; return whether any has ended."""
        clocks = [
            self.machine.host if rank is self.rank else rank.clock.now
            for rank in self.scheduler.ranks
            if not rank.ended
        ]
        return self.matching.schedule(min(clocks, default=0.0))

    def _explain(self):
        return explain(self.matching, self.communication.queues, self.meetings.unmet())

    def _check_ending(self):
        """Raise an error if, at the end, calls have no counterpart or wait for each other."""
        while self._schedule_next():
            pass
        lines = unmatched(self.matching, self.communication.queues)
        lines += [text for messages in self.messages for text in messages.unmatched()]
        lines = [f"  {text}" for text in lines + self._explain()]
        if lines:
            lines[MAX_LINES:] = [f"  {text}" for text in self.recorders.write()]
            raise RanksError("the program has ended with unmatched calls:\n" + "\n".join(lines))
