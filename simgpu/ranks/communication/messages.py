"""Messages between two ranks of a group: which send belongs to which receive."""

from collections import defaultdict, deque

from simgpu import user_frame
from simgpu.backend.tensor import SimTensor
from simgpu.ranks.communication import describe, values
from simgpu.ranks.communication.checks import arguments
from simgpu.ranks.process.scheduler import RanksError

_BATCH = "batch_isend_irecv"


class Messages:
    """The messages of one rank in a group.

    NCCL matches the messages between two ranks in the order of the calls and ignores tags; gloo,
    which sends host tensors, matches those of one tag. A message of a rank to itself is a copy.

    Parameters
    ----------
    group : SimProcessGroup
    members : tuple of int
        The members, as ranks among all.
    """

    def __init__(self, group, members):
        self._group, self._members = group, members
        self._counts = defaultdict(int)  # by sender, receiver, and tag if it counts
        self._to_self = defaultdict(deque)  # is a send -> tensors that have no counterpart yet

    def issue(self, world, what, tensor, peer, tag, is_send, stream):
        """Issue the sending or receiving of a tensor; return its work.

        Parameters
        ----------
        world : World
        what : Communication
            Description in the trace.
        peer, tag : int
            The other rank in the group, and the tag.
        is_send : bool
            Whether the tensor is sent.
        stream : callable
            Maps a device to the stream on which to run.
        """
        caller = self._group.caller
        call = "send" if is_send else "recv"
        arguments.message(caller, call, [tensor], peer)
        if peer == caller.own:
            return self._copy(world, what, tensor, is_send, stream)
        other = self._members[peer]
        if other not in world.scheduler.by_number:
            raise RanksError(
                f"rank {caller.rank} has a message to or from rank {other} "
                f"({user_frame.line()}), which does not run; add it to ranks"
            )
        source, target = (caller.own, peer) if is_send else (peer, caller.own)
        ranks = self._members[source], self._members[target]
        pair = source, target, *(() if isinstance(tensor, SimTensor) else ("tag", tag))
        self._counts[pair] += 1
        verb = f"send to rank {ranks[1]}" if is_send else f"recv from rank {ranks[0]}"
        tagged = f" with tag {tag}" if tag else ""
        if isinstance(tensor, SimTensor) and self._group.has_communicators_for_pairs():
            tagged += f" in a {_BATCH}" if user_frame.is_called_by(_BATCH) else ""
        return world.issue(
            (self._group.key, *pair, self._counts[pair]),
            (what, ranks, tensor.nbytes, values.send),
            verb, [tensor] if is_send else [], [] if is_send else [tensor], [tensor],
            stream,
            same=f"a message of {describe.in_memory([tensor])}{tagged}",
        )  # fmt: skip

    def _copy(self, world, what, tensor, is_send, stream):
        """Copy the tensor if its counterpart has been issued; otherwise return no work."""
        rank = self._members[self._group.caller.own]
        if not user_frame.is_called_by(_BATCH):
            raise RanksError(
                f"rank {rank} sends to itself ({user_frame.line()}), or receives from itself: with "
                f"NCCL that hangs outside a {_BATCH} that has both; copy the tensor instead"
            )
        if not self._to_self[not is_send]:
            self._to_self[is_send].append((tensor, user_frame.line()))
            return None
        other, line = self._to_self[not is_send].popleft()
        if describe.sizes([other]) != describe.sizes([tensor]):
            raise RanksError(
                f"rank {rank} has a message to itself of {describe.sizes([other])} ({line}) and "
                f"of {describe.sizes([tensor])} ({user_frame.line()}); give both one size and type"
            )
        given, filled = (tensor, other) if is_send else (other, tensor)
        self._counts["copies"] += 1
        return world.issue(
            (self._group.key, rank, rank, self._counts["copies"]),
            (what, (rank,), tensor.nbytes, values.copy),
            f"send to rank {rank} itself", [given], [filled], [filled], stream,
        )  # fmt: skip

    def unmatched(self) -> list[str]:
        """Describe the messages of the rank to itself that have no counterpart."""
        rank = self._group.caller.rank
        return [
            f"rank {rank} called {'send to' if is_send else 'recv from'} rank {rank} ({line}), but "
            f"rank {rank} itself never made the matching call"
            for is_send, waiting in self._to_self.items()
            for _, line in waiting
        ]
