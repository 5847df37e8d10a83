"""For whom ranks wait: those that wait less than the others, and why they are late."""

from dataclasses import dataclass
from statistics import median

from simgpu.run.causes.shares import INPUT, WAITING

NOTABLE = 0.025  # of the time: who waits by so much less than the rank in the middle is late
ALIKE = 0.02  # amounts of work that differ by less are the same
WORK = ("compute", "memory bandwidth")
_REASONS = {
    INPUT: "data loader takes longer",
    "launches": "host launches later",
    "copies": "copies between host and device take longer",
    "communication": "messages take longer",
}


@dataclass(frozen=True)
class Waited:
    """For whom the others wait.

    Attributes
    ----------
    ranks : tuple of int
        Those that are late.
    cause : str
        What takes a larger share of their time than of that of the others.
    work : float
        How many times as much work as the others their kernels have.
    """

    ranks: tuple
    cause: str
    work: float

    def __str__(self):
        names = ", ".join(map(str, self.ranks))
        whom = f"for rank{'s' * (len(self.ranks) > 1)} {names}"
        if self.cause not in WORK:
            return f"{whom}, whose {_REASONS[self.cause]}"
        if abs(self.work - 1) < ALIKE:
            return f"{whom}, whose GPU takes longer for as much work"
        return f"{whom}, with {self.work:.2f} times as much work"


def waited_for(shares, work) -> Waited | None:
    """Return for whom most ranks wait; None if nobody stands out.

    Parameters
    ----------
    shares : dict of int to dict
        The share of each cause in the time of each rank.
    work : dict of int to float
        How much the kernels of each rank do, in any unit.

    Examples
    --------
    >>> usual = {"compute": 0.5, "waiting for others": 0.5}
    >>> late = {"compute": 1.0, "waiting for others": 0.0}
    >>> print(waited_for({0: usual, 1: late, 2: usual}, {0: 10, 1: 20, 2: 10}))
    for rank 1, with 2.00 times as much work
    """
    waits = {rank: own[WAITING] for rank, own in shares.items()}
    usual = median(waits.values())
    late = tuple(rank for rank in waits if waits[rank] < usual - NOTABLE)
    if not late:
        return None
    others = [rank for rank in waits if rank not in late]
    causes = sorted({cause for own in shares.values() for cause in own} - {WAITING})
    cause = max(causes, key=lambda cause: _excess(shares, cause, late, others))
    most, less = (median(work[rank] for rank in ranks) for ranks in (late, others))
    return Waited(late, cause, most / less if less else 1.0)


def _excess(shares, cause, late, others):
    """Return by how much larger a cause's share of the late ranks' time is than of the others'."""
    most, less = (
        median(shares[rank].get(cause, 0.0) for rank in ranks) for ranks in (late, others)
    )
    return most - less
