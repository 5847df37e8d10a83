"""What the summary says about the data loader."""

from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from simgpu.run.loader.choice import Choice
from simgpu.units import quantity

MARGIN = 1.1  # a loader that needs this many times as long as the steps has fallen behind


class Batch(NamedTuple):
    """A batch that a rank has taken.

    Attributes
    ----------
    rank : int
    step : int
        How many steps it had made before.
    interval : float
        Seconds that it took to make, divided by the number of workers.
    workers : int
        How many the loader has.
    """

    rank: int
    step: int
    interval: float
    workers: int


@dataclass(frozen=True)
class Input:
    """The data loader of a rank in the mean, within some time.

    Attributes
    ----------
    batches : float
        How many a rank has taken.
    interval : float
        Seconds from one batch to the next if the loader never pauses.
    workers : int
        Of the loader that made most of them.
    choice : Choice
    """

    batches: float
    interval: float
    workers: int
    choice: Choice

    @property
    def seconds(self):
        """How long the loader needs for all of them, in the mean."""
        return self.batches * self.interval

    def __str__(self):
        workers = f"{self.workers} worker{'s' * (self.workers > 1)}"
        whose = f"your {workers}" if self.workers else "your loader, which has no workers"
        every = quantity(self.interval, "s")
        return (
            f"of the time the GPUs wait for {whose}: a batch every {every} ({self.choice.source})"
        )

    def doubts(self, seconds, steps) -> list[str]:
        """Return what a reader of a step time should know about the loader, a line each.

        Parameters
        ----------
        seconds : float
            The simulated time in which the batches were taken.
        steps : int
            The number of steps in it; 0 if there are none.
        """
        found = []
        if self.seconds > MARGIN * seconds:
            found.append(self._behind(seconds, steps or 1))
        if self.workers and self.choice.counts and self.choice.watches:
            found.append(
                "each worker of the loader counts as if it had a core of this machine to itself; "
                "those of all ranks of a node together need that many cores"
            )
        return found

    def _behind(self, seconds, steps):
        needs = quantity(self.seconds / steps, "s")
        if self.choice.counts:
            return (
                f"these steps have used up batches that were made ahead: in the long run the "
                f"loader needs {needs} for the batches of a step; give the script more steps"
            )
        return (
            f"the loader needs {needs} on this machine for the batches of a step that takes "
            f"{quantity(seconds / steps, 's')}: real GPUs would wait; --loader measured lets "
            "these wait, too"
        )


def input_of(batches, choice) -> Input | None:
    """Return the mean over the ranks that have taken batches; None if there are none."""
    if not batches:
        return None
    workers = Counter(batch.workers for batch in batches).most_common(1)[0][0]
    ranks = len({batch.rank for batch in batches})
    interval = fmean(batch.interval for batch in batches)
    return Input(len(batches) / ranks, interval, workers, choice)
