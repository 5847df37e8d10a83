"""What the ranks of one `spawn` share: the machine, the baton, and all communication."""

from simgpu.backend.tensor import SimTensor
from simgpu.clock.streams import Stream
from simgpu.ranks.communication.collective import Call, Meeting
from simgpu.ranks.communication.in_flight import UnderWay
from simgpu.ranks.communication.work import SimWork
from simgpu.ranks.process import user_frame
from simgpu.ranks.process.scheduler import MAX_NAMED, RanksError

active = None  # the job whose ranks run now


class Job:
    """The ranks of one `spawn`.

    Attributes
    ----------
    baton : Baton
        Its `holder` is the rank that runs.
    machine : Machine
        Rank number `index` has the device of this number.
    store_values : dict
        What ranks tell each other through their stores.
    settling : Settling
        Finds when communication runs.
    """

    def __init__(self, baton, machine, settling):
        self.baton, self.machine, self.settling = baton, machine, settling
        self.store_values = {}
        self._meetings = {}  # those to which not all ranks have come
        self._complete = []  # the others, until they are settled
        self._under_way = UnderWay()
        self._open = {}  # streams -> works for which nobody has waited, in order
        self._issued = {}  # ranks -> meetings that they have issued since their last kernel
        self._callback_streams = {}
        baton.ending, baton.when_stuck = self._check_ending, self._settle_complete

    @property
    def rank(self):
        """The rank that runs."""
        return self.baton.holder

    def own_index(self) -> int:
        """Return the number of the device of the rank that runs."""
        return self.rank.index

    def index_of(self, index) -> int:
        """Return the number of a device that the rank that runs calls by one.

        Its own has two: that of its rank among those that run, and that on its node.
        """
        return self.rank.index if index == self.rank.local else index

    def meet(self, key, meeting, name, given, filled, outputs, stream, same="", blocks_host=False):
        """Issue the running rank's part of a collective or message.

        Parameters
        ----------
        key
            The same for all parts that belong together.
        meeting : tuple
            What, members, bytes, computation and root of the `Meeting`, if this is the first part.
        name : str
            The call, in words.
        given, filled : list of torch.Tensor
            What is read, and what is written.
        outputs : list
            What `SimWork.result` returns.
        stream : callable or None
            Returns, for a device, the stream on which it runs; None: the current one.
        same : str
            What must be the same on all ranks, in words; default: the name.
        blocks_host : bool
            Whether the host waits for the end, too.

        Returns
        -------
        SimWork
        """
        device = self._device_of(given or filled)
        call = Call(self.rank.number, user_frame.line(), given, filled, name, same or name, device)
        if device is None:
            call.ready = self.machine.host
            call.same += " on the host"
        else:
            self._issue(call, stream)
        found = self._meetings.get(key)
        if found is None:
            what, members, *rest = meeting
            present = [rank for rank in members if rank in self.baton.by_number]
            found = self._meetings[key] = Meeting(what, members, present, *rest)
        found.num_bytes = max(found.num_bytes, meeting[2])
        found.join(call)
        if not found.missing():
            del self._meetings[key]
            if not found.settled:
                self._complete.append(found)
        if device is not None:
            self._issued.setdefault(self.rank, []).append(found)
            device.before_kernel = self._let_others_call
        work = SimWork(self, found, call, outputs, blocks_host)
        if device is not None and stream is not None:
            self.begin(work, given, filled)
        return work

    def _device_of(self, tensors):
        """Return the device of the tensors, which is the rank's; None for those on the host."""
        devices = {t._device if isinstance(t, SimTensor) else None for t in tensors}
        if len(devices) > 1:
            raise RanksError(
                f"rank {self.rank.number} communicates ({user_frame.line()}) tensors that are "
                "partly on the host; move them to one device first"
            )
        device = devices.pop() if devices else None
        if device is not None and device.index != self.own_index():
            raise RanksError(
                f"rank {self.rank.number} communicates ({user_frame.line()}) a tensor on "
                f"{device.name}, which is not its device; a rank's own is the current one when it "
                "starts, here "
                f"{self.machine.devices[self.own_index()].name}"
            )
        return device

    def _issue(self, call, stream):
        """Charge the host for the launch; note when this rank lets the communication start."""
        device, name = call.device, call.name
        current = device.current_stream()
        call.stream = current if stream is None else stream(device)
        self._under_way.check(name, call.given, call.filled, call.stream)
        issued = self.machine.issue(name.split(" ")[0], call.stream)
        call.ready = max(issued, current.end)

    def _let_others_call(self):
        """Let other ranks make their calls, if they can: a kernel is slower beside a collective."""
        rank = self.rank
        self.machine.devices[rank.index].before_kernel = None
        meetings = self._issued.pop(rank, ())
        self.baton.wait(lambda: all(m.settled for m in meetings), None, patient=False)

    def begin(self, work, reads, writes) -> None:
        """Take note of a work that nobody has waited for."""
        work.job = self
        self._open.setdefault(work.stream, []).append(work)
        self._under_way.add(work, reads, writes)

    def wait_for(self, tensor) -> None:
        """Wait for the communication that is to fill a tensor, if there is any."""
        for work in self._under_way.writers(tensor):
            work.wait()

    def finish(self, work) -> None:
        """Take note of a wait: what came before in the work's stream is over as well."""
        works = self._open.get(work.stream, ())
        if work in works:
            position = works.index(work) + 1
            for done in works[:position]:
                self._under_way.remove(done)
            del works[:position]

    def settle(self, devices) -> None:
        """Let other ranks run until all communication that `devices` have issued is settled."""
        for device in devices:
            for stream, works in list(self._open.items()):
                if works and stream._device is device:
                    last = works[-1]
                    last.settle()
                    self.finish(last)

    def callback_stream(self, device) -> Stream:
        """Return the stream of a device in which callbacks of futures run."""
        if device not in self._callback_streams:
            self._callback_streams[device] = Stream.of(device)
        return self._callback_streams[device]

    def close(self) -> None:
        """Forget all works, and what was to be done before kernels."""
        for works in self._open.values():
            for work in works:
                self._under_way.remove(work)
        self._open.clear()
        for device in self.machine.devices:
            device.before_kernel = None

    def _settle_complete(self):
        """Find when communication runs to which all ranks have come; return whether any has."""
        complete, self._complete = self._complete, []
        if not complete:
            return False
        clocks = [
            self.machine.host if rank is self.rank else rank.clock.now
            for rank in self.baton.ranks
            if not rank.ended
        ]
        self.settling.settle(complete, min(clocks, default=0.0))
        return True

    def _check_ending(self):
        """Refuse a program at whose end a rank has called what others have not."""
        self._settle_complete()
        lines = [
            f"  rank {call.rank} called {call.name} ({call.line}), which "
            f"rank {meeting.missing()[0]} never did"
            for meeting in self._meetings.values()
            for call in meeting.calls.values()
        ]
        if lines:
            raise RanksError(
                "the program has ended, but not all communication:\n" + "\n".join(lines[:MAX_NAMED])
            )
