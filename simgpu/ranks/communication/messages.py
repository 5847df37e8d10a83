"""Messages between two ranks of a group: which send belongs to which receive."""

from collections import defaultdict, deque

from simgpu import user_frame
from simgpu.backend.tensor import SimTensor
from simgpu.ranks.communication import describe, values
from simgpu.ranks.communication.call import Call
from simgpu.ranks.communication.checks import arguments
from simgpu.ranks.process.scheduler import RanksError


class Messages:
    """The messages of one rank in a group.

    NCCL matches the messages between two ranks in the order of the calls and ignores tags, those of
    batches apart from others, which have a communicator of their own; gloo, which sends host
    tensors, matches those of one tag. A message of a rank to itself is a copy.

    Parameters
    ----------
    group : SimProcessGroup
    members : tuple of int
        The members, as ranks among all.
    """

    def __init__(self, group, members):
        self._group, self._members = group, members
        self._counts = defaultdict(int)  # by sender, receiver, and communicator or tag
        self._peers = set()  # with which it shares a communicator
        self._to_self = defaultdict(deque)  # is a send -> tensors that have no counterpart yet

    def issue(self, world, what, tensor, peer, tag, is_send, stream, batch, meets):
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
        batch : Batch or None
            The messages that the rank hands over with it.
        meets : bool
            Whether the first message with a peer waits until the peer makes its first one.
        """
        caller = self._group.caller
        call = "send" if is_send else "recv"
        arguments.message(caller, call, [tensor], peer)
        if peer == caller.own:
            return self._copy(world, what, tensor, is_send, stream, batch)
        other = self._members[peer]
        if other not in world.scheduler.by_number:
            raise RanksError(
                f"rank {caller.rank} has a message to or from rank {other} "
                f"({user_frame.line()}), which does not run; add it to ranks"
            )
        source, target = (caller.own, peer) if is_send else (peer, caller.own)
        ranks = self._members[source], self._members[target]
        on_device = isinstance(tensor, SimTensor)
        pair = source, target, *(("alone", meets) if on_device else ("tag", tag))
        self._counts[pair] += 1
        verb = f"send to rank {ranks[1]}" if is_send else f"recv from rank {ranks[0]}"
        tagged = f" with tag {tag}" if tag else ""
        if meets and on_device and peer not in self._peers:
            world.meetings.meet(self._group.key, caller.rank, other, verb)
            self._peers.add(peer)
        return world.issue(Call(
            (self._group.key, *pair, self._counts[pair]), what, ranks, tensor.nbytes, values.send,
            verb, [tensor] if is_send else [], [] if is_send else [tensor], [tensor], stream,
            same=f"a message of {describe.in_memory([tensor])}{tagged}", batch=batch,
        ))  # fmt: skip

    def _copy(self, world, what, tensor, is_send, stream, batch):
        """Copy the tensor if its counterpart has been issued; otherwise return no work."""
        rank = self._members[self._group.caller.own]
        if batch is None:
            raise RanksError(
                f"rank {rank} sends to itself ({user_frame.line()}), or receives from itself: with "
                "NCCL that hangs outside a batch_isend_irecv that has both; copy the tensor instead"
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
        return world.issue(Call(
            (self._group.key, rank, rank, self._counts["copies"]), what, (rank,), tensor.nbytes,
            values.copy, f"send to rank {rank} itself", [given], [filled], [filled], stream,
            batch=batch,
        ))  # fmt: skip

    def unmatched(self) -> list[str]:
        """Describe the messages of the rank to itself that have no counterpart."""
        rank = self._group.caller.rank
        return [
            f"rank {rank} called {'send to' if is_send else 'recv from'} rank {rank} ({line}), but "
            f"rank {rank} itself never made the matching call"
            for is_send, waiting in self._to_self.items()
            for _, line in waiting
        ]


class Meetings:
    """First messages between two ranks, in which each waits for the other (``order/queues.py``).

    Parameters
    ----------
    scheduler : CooperativeScheduler
    """

    def __init__(self, scheduler):
        self._scheduler = scheduler
        self._unmet = set()  # group, rank and peer: until the peer makes its first message, too

    def meet(self, group, own, other, name) -> None:
        """Wait until the other rank makes its first message with this one; `name` is the call."""
        line, mine, theirs = user_frame.line(), (group, own, other), (group, other, own)
        if theirs in self._unmet:
            self._unmet.remove(theirs)
            return
        self._unmet.add(mine)
        self._scheduler.wait(
            lambda: mine not in self._unmet,
            lambda: f"waits in {name} ({line}), their first message, for rank {other}",
        )

    def unmet(self) -> list[tuple]:
        """Return the ranks that wait, each with its peer."""
        return [(rank, peer) for _, rank, peer in self._unmet]
