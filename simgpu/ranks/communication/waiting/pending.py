"""The works that no wait() of the program has covered yet."""

from simgpu.clock.streams import Stream
from simgpu.ranks.communication.waiting.in_flight import InFlight


class PendingWorks:
    """The works that wait() has yet to cover, in the order in which they were issued.

    Attributes
    ----------
    in_flight : InFlight
        The memory that they use.
    """

    def __init__(self):
        self.in_flight = InFlight()
        self._of = {}  # stream -> its works
        self._callback_streams = {}

    def begin(self, work, reads, writes) -> None:
        """Add a work, and the tensors that it reads and writes."""
        self._of.setdefault(work.stream, []).append(work)
        self.in_flight.add(work, reads, writes)

    def wait_for(self, tensor) -> None:
        """Wait for communication in flight that writes to a tensor."""
        for work in self.in_flight.writers(tensor):
            work.wait()

    def finish(self, work) -> None:
        """Remove a work after its wait, and all earlier ones in its stream."""
        works = self._of.get(work.stream, ())
        if work in works:
            position = works.index(work) + 1
            # NCCL has one work for a batch, gloo one for each message: so wait for all of them.
            beside = [other for other in works[: position - 1] if other.batch is not None]
            for done in works[:position]:
                if done not in beside:
                    self.in_flight.remove(done)
            works[:position] = beside

    def wait_until_scheduled(self, devices) -> None:
        """Run other ranks until all communication issued on `devices` is scheduled."""
        for device in devices:
            for stream, works in list(self._of.items()):
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
        """Remove all works."""
        for works in self._of.values():
            for work in works:
                self.in_flight.remove(work)
        self._of.clear()
