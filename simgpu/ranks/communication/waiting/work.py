"""Works and futures, by which a rank waits for communication that it has issued."""

import torch
import torch.distributed as dist

from simgpu.backend.tensor import SimTensor
from simgpu.clock.current import current_machine
from simgpu.clock.streams import POLL_SECONDS, Stream
from simgpu.races import detector as races
from simgpu.ranks.communication.waiting.in_flight import flatten
from simgpu.ranks.process.describe_ranks import subject


class SimWork(dist.Work):
    """One rank's handle on a collective or message, a `torch.distributed.Work`.

    Waiting runs other ranks until they have made their calls. Then the current stream waits for the
    end, and the host continues, unless the tensors are on the host or the call is a barrier.

    Parameters
    ----------
    world : World
        The world of the ranks.
    collective : Collective
    participant : Participant
        The part of the rank that owns this handle.
    outputs : list
        Return value of `result`.
    blocks_host : bool
        Whether the host waits as well.
    """

    def __init__(self, world, collective, participant, outputs, blocks_host=False):
        super().__init__()
        self._world, self._collective, self._device = world, collective, participant.device
        self._outputs, self._blocks_host = outputs, blocks_host or participant.device is None
        self.rank, self.line, self.name = participant.rank, participant.line, participant.name
        self.stream, self.batch = participant.stream, participant.batch
        self.uses = []  # of tensors, while in flight
        self.waits_implicitly = False

    def wait_until_scheduled(self):
        """Run other ranks until its times and values are known."""
        collective = self._collective
        self._world.scheduler.wait(lambda: collective.scheduled, self._describe)

    def _describe(self):
        missing = self._collective.missing()
        call = f"{self.name} ({self.line})"
        if missing:
            return f"waits in {call} for {subject(missing)}"
        queued = self._world.communication.queues.explain(self._collective)
        return f"waits in {call}, {queued}" if queued else "is ready"

    def wait(self, timeout=None):
        """Make the current stream (or the host) wait; return True."""
        self.wait_until_scheduled()
        self._world.works.finish(self)
        end = self._collective.end
        if self._blocks_host:
            marks = () if self._device is None else (self,)
            current_machine().wait_until(end, f"wait for {self._collective.what.name}", marks)
        else:
            _make_current_stream_wait(self, self._device, end)
        return True

    def synchronize(self):
        """Do the same as `wait`."""
        self.wait()

    def block_current_stream(self):
        """Do the same as `wait`."""
        self.wait()

    def is_completed(self):
        """Return whether it has ended; polling takes a microsecond, and runs other ranks."""
        machine = current_machine()
        machine.host += POLL_SECONDS
        self.wait_until_scheduled()
        if self._collective.end > machine.host:
            return False
        self._world.works.finish(self)
        if races.active is not None and self._device is not None:
            races.active.host_waits((self,))
        return True

    def is_success(self):
        """Return True."""
        return True

    def exception(self):
        """Return None."""

    def result(self):
        """Return the outputs."""
        return self._outputs

    def get_future(self):
        """Return a future of the outputs.

        It is complete from the start; the first use of the outputs waits: Note [Waits in C++] of
        `simgpu.ranks`.
        """
        self.waits_implicitly = True
        return SimFuture.of(self._outputs, self._world.works, self._device)


def _make_current_stream_wait(work, device, end):
    """Make the current stream of a device wait for a work, which ends at the time `end`."""
    stream = device.current_stream()
    stream.end = max(stream.end, end)
    if races.active is not None:
        races.active.wait_for_work(work, device)


class SimFuture(torch.futures.Future):
    """A complete future; the first use of its tensors waits for them.

    As on CUDA, callbacks run in a separate stream.
    """

    @classmethod
    def of(cls, value, works, device):
        """Return a future of `value`, whose tensors are on `device`, among pending `works`."""
        future = cls()
        future._works, future._device = works, device
        future.set_result(value)
        return future

    def wait(self):
        """Make the current stream wait for the value; return it."""
        if self._device is not None:
            for tensor in flatten_tensors(self.value()):
                self._works.wait_for(tensor)
        return super().wait()

    def then(self, callback):
        """Return the future of the result of ``callback(self)``."""
        if self._device is None:
            return SimFuture.of(callback(self), self._works, None)
        stream = self._works.callback_stream(self._device)
        if races.active is not None:
            self._make_wait(stream)
        with stream:
            value = callback(self)
        self._works.begin(_CallbackWork(stream, self._works), [], flatten_tensors(value))
        return SimFuture.of(value, self._works, self._device)

    def _make_wait(self, stream):
        """Tell the race detector that a stream waits for the future, as CUDA's do at once."""
        for tensor in flatten_tensors(self.value()):
            races.active.keep_for(tensor, stream)
            for work in self._works.in_flight.writers(tensor):
                races.active.wait(stream, work)


class _CallbackWork:
    """The work that a callback has issued to its stream."""

    waits_implicitly = True
    rank, line, name, batch = None, "", "a callback", None

    def __init__(self, stream: Stream, works):
        self.stream, self._end = stream, stream.end
        self.uses, self._works = [], works
        if races.active is not None:
            races.active.record(self, stream)

    def wait(self):
        """Make the current stream wait for it."""
        if races.active is not None:  # as futures do: their values are used in this stream, too
            for use in self.uses:
                races.active.keep_for(use.tensor, self.stream._device.current_stream())
        self._works.finish(self)
        _make_current_stream_wait(self, self.stream._device, self._end)

    wait_until_scheduled = synchronize = lambda self: None


def flatten_tensors(value):
    """Return the simulated tensors in the result of a callback."""
    found = flatten(value) if isinstance(value, torch.Tensor | list | tuple) else []
    return [tensor for tensor in found if isinstance(tensor, SimTensor)]


class WorkGroup(dist.Work):
    """Several works with one handle."""

    def __init__(self, works):
        super().__init__()
        self._works = works

    def wait(self, timeout=None):
        """Wait for all works."""
        for work in self._works:
            work.wait()
        return True

    def is_completed(self):
        """Return whether all works have ended."""
        return all(work.is_completed() for work in self._works)

    def synchronize(self):
        """Do the same as `wait`."""
        self.wait()
