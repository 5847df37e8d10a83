"""Folding: run one rank in place of many that do the same.

A collective keeps all its members, and takes as long; a member that does not run is assumed to do
what the last running member before it does. Groups without a running member are assumed to
communicate at the same time as the group that they replicate, and to share links with it.
"""

from bisect import bisect_right

from simgpu.hardware.default import MAX_DEVICES


def check_ranks(ranks, nprocs, numerics) -> list[int]:
    """Return the list of ranks to run, after checking it; None: all, ``"auto"``: found later.

    Raises
    ------
    ValueError
        If `ranks` does not start with 0 or increase, has a rank beyond `nprocs` or too many
        ranks, or if values are wanted (`numerics`).
    """
    if ranks is None and nprocs <= MAX_DEVICES:
        return list(range(nprocs))
    if ranks == "auto":
        ranks = [0]  # to begin with
    if ranks is None or len(ranks) > MAX_DEVICES:
        raise ValueError(
            f"{nprocs if ranks is None else len(ranks)} ranks cannot run at once, at most "
            f"{MAX_DEVICES}; run some in place of the others: ranks='auto' finds them (simgpu run: "
            "--shapes-only)"
        )
    numbers = list(ranks)
    if numbers[:1] != [0] or numbers != sorted(set(numbers)) or numbers[-1] >= nprocs:
        raise ValueError(
            f"ranks={ranks!r}: give distinct ranks below {nprocs} in increasing order, 0 first"
        )
    if numerics:
        raise ValueError(
            "ranks that run in place of others have no values; add numerics=False (simgpu run: "
            "--shapes-only)"
        )
    return numbers


def last_represented(numbers, nprocs) -> list[int]:
    """Return, for every rank that runs, the last one that it represents."""
    return [following - 1 for following in (*numbers[1:], nprocs)]


class Folding:
    """The mapping from ranks that run to the ranks that they represent.

    Parameters
    ----------
    running : list of int
        The ranks that run.
    firsts : list of int
        The first rank that each of them represents.
    world_size : int
    """

    def __init__(self, running, firsts, world_size):
        self._running, self._firsts, self._world_size = set(running), list(firsts), world_size

    def replicas(self, members) -> list[tuple]:
        """Return the groups, of ranks that do not run, that do the same as `members`.

        Groups are assumed to form a mesh: a replica is `members` shifted by a number of ranks.

        Parameters
        ----------
        members : tuple of int
            A group.
        """
        if len(self._running) == self._world_size:
            return []
        found, used = [], {*members, *self._running}
        down, up = self._room(members)
        for shift in (*range(1, up + 1), *range(-1, down - 1, -1)):
            group = tuple(member + shift for member in members)
            if used.isdisjoint(group):
                found.append(group)
                used.update(group)
        return found

    def _room(self, members):
        """Return by how much ranks can shift, down and up, with the same representatives."""
        ends = [0, *self._firsts, self._world_size]
        places = [(rank, bisect_right(self._firsts, rank)) for rank in members]
        down = max(ends[place] - rank for rank, place in places)
        return down, min(ends[place + 1] - 1 - rank for rank, place in places)

    def at_running_ranks(self, shares, cluster) -> dict:
        """Return the shares of the edges at ranks and nodes that run.

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


def tensors_of_members(members, participants):
    """Return the inputs and the outputs of every member; outputs are None if it does not run."""
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
