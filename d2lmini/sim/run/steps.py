"""The steps of a training, found by the calls of an optimiser."""

import itertools
from collections import defaultdict

from torch.optim.optimizer import register_optimizer_step_post_hook

from d2lmini.sim.ranks import job


class Steps:
    """Takes note, inside a ``with`` block, of when optimisers have stepped.

    A step ends on a rank when everything is done that its host has issued by the end of
    ``optimizer.step()``: of the first optimiser that the rank calls, if it has several. It ends
    when it has ended on all ranks.
    """

    def __init__(self):
        self._ends = defaultdict(list)  # rank -> seconds
        self._first = {}  # rank -> optimiser

    def __enter__(self):
        self._hook = register_optimizer_step_post_hook(self._note)
        return self

    def __exit__(self, *_):
        self._hook.remove()

    def _note(self, optimizer, args, kwargs):
        rank, machine = job.active.rank, job.active.machine
        if self._first.setdefault(rank.number, optimizer) is optimizer:
            stream = machine.devices[rank.index].current_stream()
            self._ends[rank.number].append(max(machine.host, stream.end))

    def ends(self) -> list[float]:
        """Return when the steps that all ranks have made have ended, in seconds."""
        return [max(ends) for ends in zip(*self._ends.values(), strict=False)]

    def durations(self) -> list[float]:
        """Return the times from the end of one step to that of the next, in seconds."""
        return [b - a for a, b in itertools.pairwise(self.ends())]
