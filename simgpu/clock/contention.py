"""How collectives slow down concurrent kernels: they use multiprocessors and memory bandwidth.

A collective is a kernel, too. NCCL's kernel occupies some multiprocessors from the moment its rank
starts it, even while it waits for other ranks, and its data passes through the memory. Kernels that
run meanwhile get what is left and take longer; the collective does not.
"""

import math
from bisect import bisect_right, insort

MOST = 0.9  # of either is taken at most: an assumption, so that kernels still make progress


class Contention:
    """The shares of one GPU that collectives take from its kernels over time.

    Attributes
    ----------
    until : float
        When the last collective ends, in seconds.
    """

    __slots__ = ("_moments", "_taken", "until")

    def __init__(self):
        self.until = -math.inf
        self._taken = []  # (start, end, share of the multiprocessors, share of the bandwidth)
        self._moments = []  # sorted: when one of them starts or ends

    def add(self, start, end, multiprocessors, memory) -> None:
        """Add the shares that one collective, or a part of it, takes from `start` to `end`."""
        if end > start and (multiprocessors or memory):
            self._taken.append((start, end, multiprocessors, memory))
            insort(self._moments, start)
            insort(self._moments, end)
            self.until = max(self.until, end)

    def add_collective(self, ready, start, end, multiprocessors, memory) -> None:
        """Add what a collective takes that waits for other ranks from `ready` to `start`."""
        self.add(ready, start, multiprocessors, 0.0)
        self.add(start, end, multiprocessors, memory)

    def place(self, engine, ready, seconds_beside, horizon) -> tuple[float, float]:
        """Book the first gap of an engine that is long enough for a kernel.

        Parameters
        ----------
        engine : Engine
        ready : float
            The earliest start of the kernel.
        seconds_beside : callable
            ``seconds_beside(multiprocessors, memory)`` is the kernel's duration while collectives
            take these shares.
        horizon : float
            The host's time; collectives that ended by then are forgotten.

        Returns
        -------
        start, seconds : float
        """
        self._forget(horizon)
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
        """Return the duration of a kernel that starts at `start`."""
        now, left = start, 1.0  # fraction of its work
        while True:
            whole = seconds_beside(*self._shares(now))  # if the shares stayed as they are
            change = self._next_change(now)
            if now + left * whole <= change:
                return now - start + left * whole
            left -= (change - now) / whole
            now = change

    def _shares(self, now):
        """Return the shares that are taken at the time `now`."""
        found = [part for part in self._taken if part[0] <= now < part[1]]
        return tuple(min(sum(part[i] for part in found), MOST) for i in (2, 3))

    def _next_change(self, now):
        """Return the first time after `now` at which the shares change."""
        following = bisect_right(self._moments, now)
        return self._moments[following] if following < len(self._moments) else math.inf

    def _forget(self, horizon):
        """Forget collectives that ended by `horizon`."""
        left = [part for part in self._taken if part[1] > horizon]
        if len(left) < len(self._taken):
            self._taken = left
            self._moments = sorted(moment for part in left for moment in part[:2])

    def clear(self) -> None:
        """Forget all collectives."""
        self.until = -math.inf
        self._taken.clear()
        self._moments.clear()
