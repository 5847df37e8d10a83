"""For whom ranks wait: those that wait less than the others, why they are late, and by how much.

A rank is late if, in the mean, it waits less than the rank in the middle, by `NOTABLE` of the time.
Simulated times do not scatter, so that is enough for all causes but one: what a batch of the data
loader takes is measured on this machine. There a rank counts as late only if its batches take
clearly longer than those of the ranks that are not late: its median is above theirs by more than
`CLEARLY` times their scatter. That is how far their batches, over all of these ranks and steps, lie
from their median, in the median, times `TO_SIGMA`. So a few slow batches name nobody, nor does a
rank whose workers had to share a core.
"""

from dataclasses import dataclass
from statistics import median

from simgpu.run.causes.shares import INPUT, WAITING
from simgpu.units import quantity

NOTABLE = 0.025  # of the time: who waits by so much less than the rank in the middle is late
CLEARLY = 3  # times the scatter of the others: beyond what 99.7 % of normal values do
TO_SIGMA = 1.4826  # from a median deviation to the standard deviation of normal values
ALIKE = 0.02  # amounts of work that differ by less are the same
WORK = ("compute", "memory bandwidth")
_REASONS = {
    INPUT: "data loader takes longer",
    "launches": "host launches later",
    "copies": "copies between host and device take longer",
    "communication": "messages take longer",
}
BATCH, STEP, RUN = "batch", "step", "run"  # what a time is of
_TIMES = {
    BATCH: "a batch every {}, others {}",
    STEP: "{} a step, others {}",
    RUN: "{} in all, others {}",
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
    own_seconds, others_seconds : float
        What the cause takes on these ranks, and on the others; of kernels: all of them.
    each : str
        What these seconds are of: a batch of the data loader, a step, or the run.
    """

    ranks: tuple
    cause: str
    work: float
    own_seconds: float
    others_seconds: float
    each: str

    def __str__(self):
        names = ", ".join(map(str, self.ranks))
        whom = f"for rank{'s' * (len(self.ranks) > 1)} {names}"
        seconds = (quantity(value, "s") for value in (self.own_seconds, self.others_seconds))
        times = _TIMES[self.each].format(*seconds)
        if self.cause not in WORK:
            return f"{whom}, whose {_REASONS[self.cause]}: {times}"
        if abs(self.work - 1) < ALIKE:
            return f"{whom}, whose GPU takes longer for as much work: {times}"
        return f"{whom}, with {self.work:.2f} times as much work"


def waited_for(shares, work, seconds=1.0, each=RUN, batches=None) -> Waited | None:
    """Return for whom most ranks wait; None if nobody stands out.

    Parameters
    ----------
    shares : dict of int to dict
        The share of each cause in the time of each rank.
    work : dict of int to float
        How much the kernels of each rank do, in any unit.
    seconds : float
        The time of which these are shares.
    each : str
        What that time is: ``"step"`` or ``"run"``.
    batches : dict of int to list of float, optional
        What the batches that each rank has taken took, in seconds, if that was measured.

    Examples
    --------
    >>> usual = {"compute": 0.5, "waiting for others": 0.5}
    >>> late = {"compute": 1.0, "waiting for others": 0.0}
    >>> print(waited_for({0: usual, 1: late, 2: usual}, {0: 10, 1: 20, 2: 10}))
    for rank 1, with 2.00 times as much work
    >>> print(waited_for({0: usual, 1: late, 2: usual}, {0: 9, 1: 9, 2: 9}, 0.06, "step"))
    for rank 1, whose GPU takes longer for as much work: 60 ms a step, others 30 ms
    """
    waits = {rank: own[WAITING] for rank, own in shares.items()}
    usual = median(waits.values())
    late = [rank for rank in waits if waits[rank] < usual - NOTABLE]
    others = [rank for rank in waits if rank not in late]
    if batches:
        late = [
            rank for rank in late
            if _cause(shares, [rank], others) != INPUT or _is_slower(batches, rank, others)
        ]  # fmt: skip
    if not late:
        return None
    cause = _cause(shares, late, others)
    late = [rank for rank in late if _cause(shares, [rank], others) == cause] or late
    most, less = (median(work[rank] for rank in ranks) for ranks in (late, others))
    causes = WORK if cause in WORK else (cause,)
    times = [seconds * _share(shares, causes, ranks) for ranks in (late, others)]
    if cause == INPUT and batches:
        each, times = BATCH, [median(_all(batches, ranks) or [0.0]) for ranks in (late, others)]
    return Waited(tuple(late), cause, most / less if less else 1.0, *times, each)


def _is_slower(batches, rank, others):
    """Return whether the batches of a rank take clearly longer than those of the others."""
    own, usual = batches.get(rank), _all(batches, others)
    if not own or not usual:  # only one of them has a loader: nothing scatters
        return True
    middle = median(usual)
    scatter = TO_SIGMA * median(abs(value - middle) for value in usual)
    return median(own) > middle + CLEARLY * scatter


def _all(batches, ranks):
    return [value for rank in ranks for value in batches.get(rank, ())]


def _cause(shares, late, others):
    """Return what takes a share of the late ranks' time that is larger by most."""
    causes = sorted({cause for own in shares.values() for cause in own} - {WAITING})
    return max(
        causes, key=lambda one: _share(shares, (one,), late) - _share(shares, (one,), others)
    )


def _share(shares, causes, ranks):
    """Return the share of some causes together in the time of the rank in the middle."""
    return median(sum(shares[rank].get(cause, 0.0) for cause in causes) for rank in ranks)
