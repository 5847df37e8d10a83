"""How long a collective or a message takes: rings of equal links.

The only place that knows; whoever has a better model replaces `seconds`.
"""

from d2lmini.sim.hardware.specs import Link

HOST_SECONDS = 50e-6  # of one collective on host tensors, which are small


def seconds(collective: str, num_bytes: int, size: int, link: Link) -> float:
    """Time one collective among `size` ranks, or one message, in seconds.

    A ring passes parts of ``num_bytes / size`` from neighbour to neighbour: ``2 (size - 1)`` times
    in an all_reduce, ``size - 1`` times in all_gather, reduce_scatter, all_to_all, gather and
    scatter. A broadcast or reduce is a pipelined chain, in which all bytes pass every link once.

    Parameters
    ----------
    collective : str
        ``"all_reduce"``, ``"all_gather"``, ... or ``"send"``.
    num_bytes : int
        Bytes of the whole tensor: what an all_gather returns, what a reduce_scatter is given.
    size : int
        How many ranks take part.
    link : Link
        Between the GPUs; if they cannot copy to each other, everything goes through the host.

    Examples
    --------
    >>> from d2lmini.sim.hardware import find_link
    >>> link = find_link("nvlink3")
    >>> ring = seconds("all_reduce", 2**30, 8, link)
    >>> halves = seconds("reduce_scatter", 2**30, 8, link) + seconds("all_gather", 2**30, 8, link)
    >>> abs(ring - halves) < 1e-12
    True
    """
    if size == 1:
        return link.peer_seconds(0)
    if collective == "send":
        return link.peer_seconds(num_bytes)
    if collective in _CHAINS:
        return (size - 2) * link.peer_seconds(0) + link.peer_seconds(num_bytes)
    rounds = 2 * (size - 1) if collective == "all_reduce" else size - 1
    return rounds * link.peer_seconds(num_bytes / size)


_CHAINS = {"broadcast", "reduce", "barrier"}
