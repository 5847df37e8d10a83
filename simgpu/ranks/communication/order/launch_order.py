"""Collectives of two groups at once: all ranks must call them in the same order.

NCCL's kernels occupy a GPU until all ranks of the group have joined. If two ranks launch those of
two groups in opposite orders, each may wait for the other's second one, which finds no room on the
GPU. PyTorch asks for one order on all ranks, and for ``wait()`` before another group is used. With
such waits, opposite orders are a deadlock; without them, they work until a kernel needs more room.

Messages are left out: those of a pipeline cross collectives of other groups.
"""

from simgpu.ranks.process.scheduler import RanksError


def check_order(key, rank, incomplete) -> None:
    """Compare the call that a rank has just made with incomplete collectives of other groups.

    Parameters
    ----------
    key : tuple
        Of the collective that it has joined; the first element identifies the group.
    rank : int
        The rank.
    incomplete : dict
        The collectives that some of their ranks have not called, by key.

    Raises
    ------
    RanksError
        If another rank has called two of them in the opposite order.
    """
    new = incomplete[key]
    for other_key, other in incomplete.items():
        if other.is_message or other_key[0] == key[0]:  # the same group
            continue
        if rank in other.participants:
            for peer in new.participants:
                if peer in other.present and peer not in other.participants:
                    raise _error(other, new, rank, peer)
        elif rank in other.present:
            for peer, part in new.participants.items():
                earlier = other.participants.get(peer)
                if earlier is not None and earlier.number < part.number:
                    raise _error(other, new, peer, rank)


def _error(first, second, rank, other):
    """Return the error: `rank` calls `first` and `second`, the `other` rank the second only."""
    one, two = first.participants[rank], second.participants[rank]
    line = second.participants[other].line
    return RanksError(
        f"rank {rank} calls {one.name} ({one.line}) and then, in another group, {two.name} "
        f"({two.line}); rank {other} calls the second ({line}) without having called the first. "
        "Collectives of two groups may hang on NCCL unless all ranks call them in the same order"
    )
