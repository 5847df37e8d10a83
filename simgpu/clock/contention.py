"""What collectives take from the kernels beside them: multiprocessors and memory bandwidth.

A collective is a kernel, too. NCCL's keeps some multiprocessors to itself from the moment at which
its rank starts it, also while it waits for other ranks, and its bytes pass through the memory. What
runs meanwhile gets what is left, hence takes longer; the collective does not.
"""

import math

MOST = 0.9  # of either is taken at most: assumed, so that kernels go on


class Contention:
    """How much collectives take from the kernels of one GPU, from moment to moment.

    Attributes
    ----------
    until : float
        When the last of them ends, in seconds.
    """

    __slots__ = ("_taken", "until")

    def __init__(self):
        self.until = -math.inf
        self._taken = []  # (start, end, share of the multiprocessors, share of the memory's rate)

    def add(self, start, end, multiprocessors, memory) -> None:
        """Take note of one collective, or a part of it, and of the shares that it takes."""
        if end > start and (multiprocessors or memory):
            self._taken.append((start, end, multiprocessors, memory))
            self.until = max(self.until, end)

    def place(self, engine, ready, seconds_beside, horizon) -> tuple[float, float]:
        """Book a kernel into the first gap of an engine.

        Parameters
        ----------
        engine : Engine
        ready : float
            From when on it may run.
        seconds_beside : callable
            ``seconds_beside(multiprocessors, memory)`` is how long it takes where these shares are
            taken.
        horizon : float
            Nothing is asked of what was before.

        Returns
        -------
        start, seconds : float
        """
        self._taken = [part for part in self._taken if part[1] > horizon]
        needed = 0.0
        while True:
            start = engine.earliest(ready, needed)
            seconds = self._seconds(start, seconds_beside)
            if seconds <= needed:
                break
            needed = seconds
        engine.book(start, start + seconds, horizon)
        return start, seconds

    def _seconds(self, start, seconds_beside):
        """Return how long a kernel takes that starts at a moment."""
        now, left = start, 1.0  # of its work
        while True:
            alone = seconds_beside(*self._shares(now))
            change = self._change(now)
            if now + left * alone <= change:
                return now - start + left * alone
            left -= (change - now) / alone
            now = change

    def _shares(self, now):
        """Return the shares that are taken at a moment."""
        found = [part for part in self._taken if part[0] <= now < part[1]]
        return tuple(min(sum(part[i] for part in found), MOST) for i in (2, 3))

    def _change(self, now):
        """Return when that is different next."""
        moments = (moment for part in self._taken for moment in part[:2])
        return min((moment for moment in moments if moment > now), default=math.inf)

    def clear(self) -> None:
        """Forget all."""
        self.until = -math.inf
        self._taken.clear()
