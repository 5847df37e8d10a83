"""Folding: one rank stands for many that do the same.

A collective has as many members as ever, and takes as long; a member that does not run is taken to
do what the member before it does.
"""

from d2lmini.sim.ranks.baton import RanksError


def check_ranks(ranks, nprocs, numerics) -> list[int]:
    """Return the ranks that run.

    Raises
    ------
    ValueError
        If they do not begin with 0 and go up, are not below `nprocs`, or values are wanted.
    """
    numbers = list(ranks)
    if numbers[:1] != [0] or numbers != sorted(set(numbers)) or numbers[-1] >= nprocs:
        raise ValueError(
            f"ranks={ranks!r} of {nprocs}: give the ranks that run, 0 first, each once, in order"
        )
    if numerics:
        raise ValueError("ranks that stand for others have no values; give numerics=False, too")
    return numbers


def witnesses(numbers, nprocs) -> list[int]:
    """Return, for every rank that runs, the last one for which it stands."""
    return [following - 1 for following in (*numbers[1:], nprocs)]


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


def everyone(members, calls):
    """Return the tensors that every member gives and gets; absent ones get None."""
    last, given, filled = next(iter(calls.values())), [], []
    for member in members:
        last = calls.get(member, last)
        if member in calls:
            given.append(last.given)
            filled.append(last.filled)
        else:
            given.append(last.given or last.filled)
            filled.append(None)
    return given, filled
