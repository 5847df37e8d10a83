"""Faults that the launcher makes: a rank that is killed, a GPU or a network card that is slow.

A killed rank does what a process does after SIGKILL: nothing more, not even its ``finally:``. The
others go on until they need it. On real GPUs they would hang there until NCCL's time-out, or until
torchrun's agent, which sees the dead process, ends them too.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from torch.optim.optimizer import register_optimizer_step_pre_hook

from simgpu.clock import current
from simgpu.hardware.specs import GPU
from simgpu.ranks.process.scheduler import RanksError

_SHOWN = r"  (ranks? [\d, -]+ waits? |flight recorder: )"  # lines of the error of the others
EXIT_CODE = 137  # of a process that SIGKILL has ended, as shells give it


@dataclass
class Faults:
    """What goes wrong in a run.

    Attributes
    ----------
    slow, cards : dict of int to float
        How many times as long the kernels of a rank's GPU, or bytes on its network card, take.
    killed : int, optional
        The rank that is killed.
    step : int
        At which call of an optimiser's ``step()`` it is killed, counting from 1.
    """

    slow: dict = field(default_factory=dict)
    cards: dict = field(default_factory=dict)
    killed: int | None = None
    step: int = 0

    def check(self, world_size) -> None:
        """Raise an error if a rank does not exist.

        Raises
        ------
        ValueError
            Names the option.
        """
        named = [("--slow", rank) for rank in self.slow]
        named += [("--slow-card", rank) for rank in self.cards]
        if self.killed is not None:
            named.append(("--kill", self.killed))
        for option, rank in named:
            if rank >= world_size:
                raise ValueError(
                    f"{option} {rank}: there is no such rank; give one from 0 to {world_size - 1}"
                )

    def gpu(self, rank, usual) -> GPU:
        """Return the GPU of a rank, where the others have the `usual` one."""
        return usual.slower(self.slow[rank]) if rank in self.slow else usual

    def __str__(self):
        return "".join(
            f"; the {what} of rank {rank} is {factor:g} times as slow"
            for what, slow in (("GPU", self.slow), ("network card", self.cards))
            for rank, factor in sorted(slow.items())
        )


NONE = Faults()


def parse(slow, kill, cards=()) -> Faults:
    """Return the faults that the options ``--slow``, ``--kill`` and ``--slow-card`` describe.

    Raises
    ------
    ValueError
        If one of them cannot be read.

    Examples
    --------
    >>> faults = parse(["2:1.5x"], "3@step5")
    >>> faults.slow, faults.killed, faults.step
    ({2: 1.5}, 3, 5)
    """
    factors = _factors("--slow", slow), _factors("--slow-card", cards)
    if kill is None:
        return Faults(*factors)
    found = re.fullmatch(r"(\d+)@step([1-9]\d*)", kill)
    if not found:
        raise ValueError(f"--kill {kill}: give a rank and a step, counted from 1, such as 3@step5")
    return Faults(*factors, int(found[1]), int(found[2]))


def _factors(option, texts):
    factors = {}
    for text in texts:
        found = re.fullmatch(r"(\d+):(\d+(?:\.\d+)?)x?", text)
        if not found or not float(found[2]):
            raise ValueError(f"{option} {text}: give a rank and a factor, such as 2:1.5x")
        factors[int(found[1])] = float(found[2])
    return factors


class Killing:
    """Kills the rank of some `Faults` inside a ``with`` block, if there is one.

    Parameters
    ----------
    faults : Faults
    enabled : bool
        If False, no rank is killed.

    Attributes
    ----------
    done : bool
        Whether it has been killed.
    """

    def __init__(self, faults, enabled=True):
        self._faults, self.done = faults, False
        self._enabled = enabled and faults.killed is not None
        self._steps = Counter()  # of each optimiser of the rank

    def __enter__(self):
        self._hook = register_optimizer_step_pre_hook(self._count) if self._enabled else None
        return self

    def __exit__(self, *_):
        if self._hook is not None:
            self._hook.remove()

    def _count(self, optimizer, args, kwargs):
        if self.done or current.ranks is None or current.ranks.rank.number != self._faults.killed:
            return
        self._steps[id(optimizer)] += 1
        if self._steps[id(optimizer)] == self._faults.step:
            self.done = True
            current.ranks.scheduler.kill()

    def describe(self, error) -> str:
        """Return what has happened, in words.

        Parameters
        ----------
        error : Exception or None
            How the other ranks have ended.
        """
        rank, step = self._faults.killed, self._faults.step
        text = f"rank {rank} was killed (SIGKILL) in step {step}"
        lines = str(error).splitlines() if isinstance(error, RanksError) else []
        waits = [line for line in lines if re.match(_SHOWN, line)]
        if waits:
            text += (
                "; on real GPUs the others hang until the time-out of this collective (NCCL's: "
                "10 minutes), or until torchrun ends them:\n" + "\n".join(waits)
            )
        return text
