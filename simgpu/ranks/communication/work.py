"""Works and futures: how a rank waits for communication that it has issued."""

import torch
import torch.distributed as dist

from simgpu.backend.tensor import SimTensor
from simgpu.clock.current import current_machine
from simgpu.clock.streams import POLL_SECONDS, Stream
from simgpu.ranks.communication.in_flight import flatten


class SimWork(dist.Work):
    """One rank's handle on a collective or message, as `torch.distributed.Work`.

    Waiting lets other ranks run until they have made their calls; then not the host, but the
    current stream waits for the end (the host, if the tensors are on the host, or for a barrier).

    Parameters
    ----------
    job : Job
        To which the ranks belong.
    meeting, call
        Of which it is the handle.
    outputs : list
        What `result` returns.
    blocks_host : bool
        Whether the host waits, too.
    """

    def __init__(self, job, meeting, call, outputs, blocks_host=False):
        super().__init__()
        self._job, self._meeting, self._device = job, meeting, call.device
        self._outputs, self._blocks_host = outputs, blocks_host or call.device is None
        self.rank, self.line, self.name = call.rank, call.line, call.name
        self.stream = call.stream
        self.uses = []  # of tensors, while it is under way
        self.waits_by_itself = False

    def settle(self):
        """Let other ranks run until the times and the values are known."""
        meeting = self._meeting
        self._job.baton.wait(lambda: meeting.settled, self._describe)

    def _describe(self):
        missing = self._meeting.missing()
        if not missing:
            return "could go on"
        names = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        ranks = "ranks" if len(missing) > 1 else "rank"
        return f"waits in {self.name} ({self.line}) for {ranks} {names}"

    def wait(self, timeout=None):
        """Let the current stream (or the host) wait; return True."""
        self.settle()
        self._job.finish(self)
        end = self._meeting.end
        if self._blocks_host:
            current_machine().wait_until(end, f"wait for {self._meeting.what.name}")
        else:
            stream = self._device.current_stream()
            stream.end = max(stream.end, end)
        return True

    def synchronize(self):
        """As `wait`."""
        self.wait()

    def block_current_stream(self):
        """As `wait`."""
        self.wait()

    def is_completed(self):
        """Whether it is over by now; asking costs the host a microsecond, and other ranks run."""
        machine = current_machine()
        machine.host += POLL_SECONDS
        self.settle()
        if self._meeting.end > machine.host:
            return False
        self._job.finish(self)
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

        C++ waits for a future without asking Python, so it is complete from the start; whoever
        first uses the outputs waits.
        """
        self.waits_by_itself = True
        return SimFuture.of(self._outputs, self._job, self._device)


class SimFuture(torch.futures.Future):
    """A future that is complete; the first use of its tensors waits for them.

    As on CUDA, callbacks run in a stream of their own.
    """

    @classmethod
    def of(cls, value, job, device):
        """Return a future of tensors on a device."""
        future = cls()
        future._job, future._device = job, device
        future.set_result(value)
        return future

    def then(self, callback):
        """Return the future of what ``callback(self)`` returns."""
        if self._device is None:
            return SimFuture.of(callback(self), self._job, None)
        stream = self._job.callback_stream(self._device)
        with stream:
            value = callback(self)
        self._job.begin(_CallbackWork(stream), [], flatten_tensors(value))
        return SimFuture.of(value, self._job, self._device)


class _CallbackWork:
    """What a callback has put into its stream."""

    waits_by_itself = True
    rank, line, name = None, "", "a callback"

    def __init__(self, stream: Stream):
        self.stream, self._end = stream, stream.end
        self.uses = []
        self.job = None

    def wait(self):
        """Let the current stream wait for it."""
        self.job.finish(self)
        current = self.stream._device.current_stream()
        current.end = max(current.end, self._end)

    settle = synchronize = lambda self: None


def flatten_tensors(value):
    """Return the simulated tensors of what a callback returns."""
    found = flatten(value) if isinstance(value, torch.Tensor | list | tuple) else []
    return [tensor for tensor in found if isinstance(tensor, SimTensor)]


class Together(dist.Work):
    """Several works, waited for as one."""

    def __init__(self, works):
        super().__init__()
        self._works = works

    def wait(self, timeout=None):
        """Wait for all of them."""
        for work in self._works:
            work.wait()
        return True

    def is_completed(self):
        """Whether all are over."""
        return all(work.is_completed() for work in self._works)

    def synchronize(self):
        """As `wait`."""
        self.wait()
