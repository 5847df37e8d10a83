"""Messages that cross: say what to do when ranks wait for each other's messages in a circle."""

REMEDY = (
    "messages that cross wait for each other: NCCL runs those of two ranks, in both directions, in "
    "the order of the calls (with device_id= those of the whole group), and a send ends when it is "
    "received. Hand them over in one dist.batch_isend_irecv, or let even ranks send first and odd "
    "ranks receive first. On real GPUs small messages, up to about 4 MiB, may get through, so that "
    "a program works in a test and hangs at scale"
)


def hints(incomplete, blocked, queues, meetings) -> list[str]:
    """Return the remedy, if ranks wait for each other's messages on GPUs; otherwise nothing.

    Parameters
    ----------
    incomplete, blocked : iterable of Collective
        Those that some of their ranks have not called, and those that all have, but that are not
        first in their queues.
    queues : Queues
    meetings : iterable of tuple
        Of pairs of ranks that make their first message: the one that waits, and its peer.
    """
    edges = {}  # rank -> those that it waits for
    for rank, peer in meetings:
        edges.setdefault(rank, set()).add(peer)
    for collective in incomplete:
        _add(edges, collective, collective.missing())
    for collective in blocked:
        _add(edges, collective, [part.rank for part in queues.in_the_way(collective)])
    return [REMEDY] if _has_circle(edges) else []


def _add(edges, collective, others):
    if collective.is_message:
        for part in collective.participants.values():
            if part.device is not None:  # messages of host tensors have no queue
                edges.setdefault(part.rank, set()).update({*others} - {part.rank})


def _has_circle(edges):
    """Return whether some of the ranks wait only for each other."""
    while True:
        left = {rank: others & edges.keys() for rank, others in edges.items()}
        left = {rank: others for rank, others in left.items() if others}
        if len(left) == len(edges):
            return bool(edges)
        edges = left
