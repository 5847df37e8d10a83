"""Find the training steps by the calls of ``optimizer.step()``."""

import itertools
import weakref
from collections import Counter, defaultdict
from typing import NamedTuple

from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from simgpu.clock import current
from simgpu.compiled.tape import recording
from simgpu.hardware.host import BY_AUTOGRAD, BY_PYTHON

PARTS = "forward", "backward", "optimizer"  # of a step; what is neither of the others is forward


class End(NamedTuple):
    """The end of a step on a rank, in seconds, with what it has done until then, by kind."""

    time: float
    flops: Counter
    kernels: Counter
    launches: Counter  # of eager code


class Steps:
    """Records when training steps end, inside a ``with`` block.

    A step ends on a rank when all work that its host has issued by the end of ``optimizer.step()``
    is done. If the rank has several optimisers, the first one whose steps take any time counts:
    those of a reference model on the CPU take none. A step ends when it has ended on all ranks.

    Parameters
    ----------
    limit : int, optional
        A rank ends, as by ``sys.exit()``, when one of its optimisers has made this many steps.
    host_seconds : float
        What the host does for each step besides, after it.

    Attributes
    ----------
    host_seconds : float
    cut_short : bool
        Whether a rank has ended in this way.
    """

    def __init__(self, limit=None, host_seconds=0.0):
        self._limit, self.host_seconds, self.cut_short = limit, host_seconds, False
        self._made = weakref.WeakKeyDictionary()  # optimiser -> how many steps
        self._ends = defaultdict(list)  # rank -> a list for each optimiser
        self._ends_by_optimizer = weakref.WeakKeyDictionary()  # optimiser -> its list

    def __enter__(self):
        before = register_optimizer_step_pre_hook(self._begin)
        self._hooks = before, register_optimizer_step_post_hook(self._record)
        return self

    def __exit__(self, *_):
        for hook in self._hooks:
            hook.remove()

    def clear(self) -> None:
        """Forget all steps, before the ranks start again."""
        self.cut_short = False
        self._made.clear()
        self._ends.clear()
        self._ends_by_optimizer.clear()

    def _begin(self, optimizer, args, kwargs):
        if current.ranks is not None:
            _own_device().part = "optimizer"

    def _record(self, optimizer, args, kwargs):
        if current.ranks is None:  # before a script starts its ranks
            return
        if not current.ranks.checks:
            self._record_end(optimizer)
        _own_device().part = ""
        self._made[optimizer] = self._made.get(optimizer, 0) + 1
        if self._made[optimizer] == self._limit:
            self.cut_short = True
            raise SystemExit(0)

    def _record_end(self, optimizer):
        rank, machine, device = current.ranks.rank, current.ranks.machine, _own_device()
        if optimizer not in self._ends_by_optimizer:
            self._ends_by_optimizer[optimizer] = []
            self._ends[rank.number].append(self._ends_by_optimizer[optimizer])
        if tape := recording(device):
            tape.flush()
        is_main = self._ends[rank.number][0] is self._ends_by_optimizer[optimizer]
        end = max(device.current_stream().end, machine.host)
        self._ends_by_optimizer[optimizer].append(
            End(end, *(c.copy() for c in (device.flops, device.kernels, device.launches)))
        )
        if is_main and self.host_seconds:
            machine.compute_on_host("work for each step", self.host_seconds)

    @property
    def have_begun_to_end(self):
        """Whether a rank has ended a step."""
        return bool(self._ends)

    def made_by(self, rank) -> int:
        """Return how many steps a rank has made so far."""
        return len(_of_main_optimizer(self._ends[rank])) if rank in self._ends else 0

    def count(self) -> int:
        """Return how many steps all ranks together have made."""
        return sum(len(_of_main_optimizer(ends)) for ends in self._ends.values())

    def ends(self) -> list[float]:
        """Return the end of each step that all ranks have made, in seconds."""
        return [max(end.time for end in ends) for ends in self._of_all_ranks()]

    def flops(self) -> Counter:
        """Return the FLOPs from the end of the first step to that of the last, by data type."""
        first, *_, last = self._of_all_ranks()
        total = Counter()
        for before, after in zip(first, last, strict=True):
            total += after.flops - before.flops
        return total

    def kernels(self) -> dict[int, dict[str, float]]:
        """Return how many kernels a step of each rank has, by its `PARTS`; {} for a single step."""
        return self._each_step("kernels", PARTS)

    def launches(self) -> dict[int, dict[bool, float]]:
        """Return how many of them are eager code, by what launches them; {} for a single step."""
        return self._each_step("launches", (BY_PYTHON, BY_AUTOGRAD))

    def _each_step(self, what, keys):
        first, *others = self._of_all_ranks() or [()]
        if not others:
            return {}
        return {
            rank: {
                key: (getattr(after, what)[key] - getattr(before, what)[key]) / len(others)
                for key in keys
            }
            for rank, before, after in zip(self._ends, first, others[-1], strict=True)
        }

    def _of_all_ranks(self):
        each = map(_of_main_optimizer, self._ends.values())
        return list(zip(*each, strict=False))

    def durations(self) -> list[float]:
        """Return the times from the end of one step to that of the next, in seconds."""
        return [b - a for a, b in itertools.pairwise(self.ends())]


def _own_device():
    return current.ranks.machine.devices[current.ranks.own_index()]


def _of_main_optimizer(all_ends):
    return next((ends for ends in all_ends if ends[-1].time > ends[0].time), all_ends[0])
