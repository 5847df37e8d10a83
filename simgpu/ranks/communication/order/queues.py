"""The queues of communication: one for each stream of each rank, worked off in the order of calls.

A message or a collective moves bytes once it is first in the queues of all its ranks. NCCL's kernel
for it occupies its stream until then, and whatever was called after it waits, even if the others
are ready: that is how two ranks that both send first wait for each other for ever. The messages of
one batch take one place together, because NCCL runs them in one kernel (``ncclGroupEnd``).

PyTorch chooses the stream (``pointToPoint`` in ``ProcessGroupNCCL.cpp``, 2.13):

- for a message outside a batch, the one of its pair of ranks (``getKeySendRecv``), which carries
  both directions. The first such message of a pair makes a communicator of these two, and the host
  waits in the call until the other rank makes its first one, too (pytorch/pytorch issue 108378);
- for a batch, which matches batches alone, and in a group made with ``device_id=`` for every
  message, the stream of the group, on which its asynchronous collectives run.

So messages that cross, each sent before its counterpart is received, hang (pytorch/pytorch issue
109401, NVIDIA/nccl issue 479). On real GPUs one that fits into NCCL's buffers, 8 parts of 512 KiB
a channel (``NCCL_BUFFSIZE``), may leave before it is received; here none does, so that a program
does not depend on the size of its tensors.
"""

from collections import deque


class Queues:
    """The calls of all ranks that have not ended, by stream."""

    def __init__(self):
        self._of = {}  # stream -> places in order; a place: (collective, participant) of one kernel

    def add(self, collective, participant) -> None:
        """Add one rank's part of a collective or message, behind what its stream has."""
        places = self._of.setdefault(participant.stream, deque())
        batch = participant.batch
        if not (places and batch is not None and places[-1][0][1].batch is batch):
            places.append([])
        places[-1].append((collective, participant))

    def remove(self, collective) -> None:
        """Remove a collective that has ended; what waits for it may run."""
        for participant in collective.participants.values():
            places = self._of[participant.stream]
            places[0] = [entry for entry in places[0] if entry[0] is not collective]
            if not places[0]:
                places.popleft()
            if not places:
                del self._of[participant.stream]

    def is_first(self, collective) -> bool:
        """Return whether nothing is before it in any of its streams."""
        return not any(map(self._before, collective.participants.values()))

    def is_first_part(self, participant) -> bool:
        """Return whether nothing is before the part of a rank in its stream."""
        return self._before(participant) is None

    def _before(self, participant):
        """Return the part that is first in the stream of another one; None: that is first."""
        first = self._of[participant.stream][0]
        return None if any(part is participant for _, part in first) else first[0][1]

    def in_the_way(self, collective) -> list:
        """Return the parts that are first in streams of a collective in its place."""
        found = map(self._before, collective.participants.values())
        return [part for part in found if part is not None]

    def explain(self, collective) -> str:
        """Name the calls for which a collective waits that all ranks have called, or ``""``."""
        if collective.scheduled:
            return ""
        before = [
            f"on rank {part.rank} behind {part.name} ({part.line})"
            for part in self.in_the_way(collective)
        ]
        return f"which is queued {' and '.join(before)}" if before else ""
