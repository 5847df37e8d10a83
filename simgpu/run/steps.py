"""The steps of a training, found by the calls of an optimiser."""

import itertools
import weakref
from collections import defaultdict

from torch.optim.optimizer import register_optimizer_step_post_hook

from simgpu.ranks.communication import world


class Steps:
    """Takes note, inside a ``with`` block, of when optimisers have stepped.

    A step ends on a rank when everything is done that its host has issued by the end of
    ``optimizer.step()``. If the rank has several optimisers, the first one counts whose steps take
    any time: those of a model on the CPU, trained to compare with, take none. A step ends when it
    has ended on all ranks.
    """

    def __init__(self):
        self._ends = defaultdict(list)  # rank -> for each of its optimisers, a list of seconds
        self._of = weakref.WeakKeyDictionary()  # optimiser -> its list

    def __enter__(self):
        self._hook = register_optimizer_step_post_hook(self._note)
        return self

    def __exit__(self, *_):
        self._hook.remove()

    def _note(self, optimizer, args, kwargs):
        rank, machine = world.active.rank, world.active.machine
        if optimizer not in self._of:
            self._of[optimizer] = []
            self._ends[rank.number].append(self._of[optimizer])
        stream = machine.devices[rank.index].current_stream()
        self._of[optimizer].append(max(machine.host, stream.end))

    def ends(self) -> list[float]:
        """Return when the steps that all ranks have made have ended, in seconds."""
        each = map(_that_counts, self._ends.values())
        return [max(ends) for ends in zip(*each, strict=False)]

    def durations(self) -> list[float]:
        """Return the times from the end of one step to that of the next, in seconds."""
        return [b - a for a, b in itertools.pairwise(self.ends())]


def _that_counts(optimisers):
    return next((ends for ends in optimisers if ends[-1] > ends[0]), optimisers[0])
