"""Folding: one rank stands for many that do the same.

A collective has as many members as ever, and takes as long; a member that does not run is taken to
do what the member before it does. So do groups of such members alone, at the same time and over the
same wires.
"""

from bisect import bisect_right

from simgpu.configure import MAX_DEVICES
from simgpu.ranks.process.scheduler import RanksError


def check_ranks(ranks, nprocs, numerics) -> list[int]:
    """Return the ranks that run; None: all.

    Raises
    ------
    ValueError
        If they do not begin with 0 and go up, are not below `nprocs`, are too many, or values are
        wanted.
    """
    if ranks is None and nprocs <= MAX_DEVICES:
        return list(range(nprocs))
    if ranks is None or len(ranks) > MAX_DEVICES:
        raise ValueError(
            f"{nprocs if ranks is None else len(ranks)} ranks cannot run at once, up to "
            f"{MAX_DEVICES} can; name some that stand for the others, such as ranks=[0]"
        )
    numbers = list(ranks)
    if numbers[:1] != [0] or numbers != sorted(set(numbers)) or numbers[-1] >= nprocs:
        raise ValueError(
            f"ranks={ranks!r} of {nprocs}: give the ranks that run, 0 first, each once, in order"
        )
    if numerics:
        raise ValueError(
            "ranks that stand for others have no values; give numerics=False (the launcher: "
            "--shapes-only), too"
        )
    return numbers


def witnesses(numbers, nprocs) -> list[int]:
    """Return, for every rank that runs, the last one for which it stands."""
    return [following - 1 for following in (*numbers[1:], nprocs)]


class Folding:
    """For whom the ranks that run stand.

    Parameters
    ----------
    running : list of int
        The ranks that run.
    firsts : list of int
        The first rank for which each of them stands.
    world_size : int
    """

    def __init__(self, running, firsts, world_size):
        self._running, self._firsts, self._world_size = set(running), list(firsts), world_size

    def alike(self, members) -> list[tuple]:
        """Return the groups of ranks that do not run, and do what `members` do.

        They are taken to lie as in a mesh: all members moved by the same number of ranks.

        Parameters
        ----------
        members : tuple of int
            A group.
        """
        if len(self._running) == self._world_size:
            return []
        found, taken = [], {*members, *self._running}
        shifts = *range(1, self._world_size - max(members)), *range(-1, -min(members) - 1, -1)
        for shift in shifts:
            group = tuple(member + shift for member in members)
            if taken.isdisjoint(group) and all(map(self._stand_together, members, group)):
                found.append(group)
                taken.update(group)
        return found

    def _stand_together(self, a, b):
        return bisect_right(self._firsts, a) == bisect_right(self._firsts, b)

    def near(self, shares, cluster) -> dict:
        """Return the shares of those edges that lie at ranks or nodes that run.

        Parameters
        ----------
        shares : dict
            Edge (see `simgpu.network.traffic`) -> share.
        cluster : Cluster
        """
        if len(self._running) == self._world_size:
            return shares
        ranks, nodes = self._running, {cluster.node(rank) for rank in self._running}
        places = {"gpu": ranks, "wire": ranks, "host": nodes, "nic": nodes}
        return {
            edge: share
            for edge, share in shares.items()
            if edge[1] in places.get(edge[0], (edge[1],))
        }


def compare(numbers, ends, others, other_ends) -> None:
    """Refuse ranks that do not do the same as those that stand for them.

    Raises
    ------
    RanksError
        It names two ranks and their times.
    """
    for number, end, other, other_end in zip(numbers, ends, others, other_ends, strict=True):
        if end != other_end:
            raise RanksError(
                f"rank {number} cannot stand for rank {other}: it ends at {end:.9g} s, rank "
                f"{other} at {other_end:.9g} s; give more ranks, or all"
            )


def everyone(members, participants):
    """Return the tensors that every member gives and gets; absent ones get None."""
    last, given, filled = next(iter(participants.values())), [], []
    for member in members:
        last = participants.get(member, last)
        if member in participants:
            given.append(last.given)
            filled.append(last.filled)
        else:
            given.append(last.given or last.filled)
            filled.append(None)
    return given, filled
