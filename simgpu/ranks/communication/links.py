"""The links of a cluster while ranks communicate: who uses how much of them, and when.

A collective that has its links for itself takes `Cost.seconds`: its latency, in which it moves
nothing, then its bytes, at full speed. At full speed it keeps a share of each of its edges busy,
and of the slowest edge all. Where several that are scheduled together ask for more of an edge than
is free, they are slowed alike until the demand changes: two that want all of it get half each. What
has been scheduled before keeps what it has.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict


class Transfer:
    """One collective on the links.

    Parameters
    ----------
    ready : float
        When it may start, in seconds.
    cost : Cost
        What it takes alone.
    shares : dict
        Edge -> share that it keeps busy at full speed.
    """

    def __init__(self, ready, cost, shares):
        self.ready, self.cost = ready, cost
        self.begin = ready + cost.latency  # of its bytes
        self.shares = shares
        self.speed = 1.0
        self.pieces = []  # (start, end, speed) of what it has moved
        self._alone = ready + cost.seconds  # its end, if nothing ever slows it
        self._left = max(cost.seconds - cost.latency, 0.0)  # seconds, at full speed

    def end(self, now):
        """Return when it ends if its speed stays as it is."""
        if self.speed == 1.0 and all(speed == 1.0 for *_, speed in self.pieces):
            return self._alone  # to the last digit
        return now + self._left / self.speed if self.speed else math.inf

    def move(self, now, until):
        """Move bytes at its present speed."""
        self._left = max(self._left - self.speed * (until - now), 0.0)
        if self.pieces and self.pieces[-1][1:] == (now, self.speed):
            now = self.pieces.pop()[0]
        self.pieces.append((now, until, self.speed))


class _EdgeUse:
    """How much of one edge is used, from moment to moment."""

    __slots__ = ("_moments", "_used")

    def __init__(self):
        self._moments, self._used = [], []  # used[i] from moments[i] on; at the end nothing

    def free(self, now):
        """Return the share that is free."""
        i = bisect_right(self._moments, now)
        return max(1.0 - self._used[i - 1], 0.0) if i else 1.0

    def change(self, now):
        """Return when that is different next."""
        i = bisect_right(self._moments, now)
        return self._moments[i] if i < len(self._moments) else math.inf

    def add(self, start, end, share, horizon):
        """Use a share more from `start` to `end`; forget what was before `horizon`."""
        old = bisect_right(self._moments, horizon) - 1
        if old > 0:
            del self._moments[:old], self._used[:old]
        first, last = self._cut(start), self._cut(end)
        for i in range(first, last):
            self._used[i] += share

    def _cut(self, moment):
        i = bisect_left(self._moments, moment)
        if i == len(self._moments) or self._moments[i] != moment:
            self._moments.insert(i, moment)
            self._used.insert(i, self._used[i - 1] if i else 0.0)
        return i


class Links:
    """All edges of a cluster."""

    def __init__(self):
        self._edges = defaultdict(_EdgeUse)

    def advance(self, transfers, now) -> tuple:
        """Move transfers until one of them ends or begins, or what is free changes.

        Returns
        -------
        float
            That moment.
        list of Transfer
            Those that have ended.
        """
        moving = [transfer for transfer in transfers if transfer.begin <= now]
        later = [transfer.begin for transfer in transfers if transfer.begin > now]
        if not moving:
            return min(later), []
        self._set_speeds(moving, now)
        ends = [transfer.end(now) for transfer in moving]
        until = min(*ends, *later, self._change(moving, now))
        for transfer in moving:
            transfer.move(now, until)
        return until, [transfer for transfer, end in zip(moving, ends, strict=True) if end <= until]

    def _set_speeds(self, transfers, now):
        asked = defaultdict(float)
        for transfer in transfers:
            for edge, share in transfer.shares.items():
                asked[edge] += share
        for transfer in transfers:
            rates = (self._edges[edge].free(now) / asked[edge] for edge in transfer.shares)
            transfer.speed = min(1.0, min(rates, default=1.0))

    def _change(self, transfers, now):
        edges = {edge for transfer in transfers for edge in transfer.shares}
        return min((self._edges[edge].change(now) for edge in edges), default=math.inf)

    def reserve(self, transfers, horizon):
        """Keep what transfers that have ended have used, so that later ones get the rest."""
        for transfer in transfers:
            for start, end, speed in transfer.pieces:
                for edge, share in transfer.shares.items():
                    self._edges[edge].add(start, end, share * speed, horizon)
