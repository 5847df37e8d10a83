"""The links of a cluster and how collectives share them over time.

A collective that shares its links with no other takes `Cost.seconds`: its latency, in which it
moves nothing, then its bytes at full speed. At full speed it occupies a share of each of its edges,
all of the slowest one. If several that are scheduled together demand more of an edge than is free,
all are slowed by the same factor until the demand changes: two that want all of it get half each.
Collectives scheduled earlier keep their shares.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict


class Transfer:
    """One collective on the links.

    Parameters
    ----------
    ready : float
        Its earliest start, in seconds.
    cost : Cost
        Its cost without contention.
    shares : dict
        Edge -> share that it occupies at full speed.
    """

    def __init__(self, ready, cost, shares):
        self.ready, self.cost = ready, cost
        self.begin = ready + cost.latency  # when its bytes start to move
        self.shares = shares
        self.speed = 1.0
        self.pieces = []  # (start, end, speed) of the bytes moved so far
        self._uncontended_end = ready + cost.seconds
        self._remaining = max(cost.seconds - cost.latency, 0.0)  # seconds at full speed

    def end(self, now):
        """Return when it ends at its current speed."""
        if self.speed == 1.0 and all(speed == 1.0 for *_, speed in self.pieces):
            return self._uncontended_end  # free of rounding errors
        return now + self._remaining / self.speed if self.speed else math.inf

    def move(self, now, until):
        """Move bytes at its current speed from `now` to `until`."""
        self._remaining = max(self._remaining - self.speed * (until - now), 0.0)
        if self.pieces and self.pieces[-1][1:] == (now, self.speed):
            now = self.pieces.pop()[0]
        self.pieces.append((now, until, self.speed))


class _EdgeUse:
    """The used share of one edge over time, a step function."""

    __slots__ = ("_moments", "_used")

    def __init__(self):
        self._moments, self._used = [], []  # used[i] from moments[i] on; 0 from the last

    def free(self, now):
        """Return the free share at `now`."""
        i = bisect_right(self._moments, now)
        return max(1.0 - self._used[i - 1], 0.0) if i else 1.0

    def next_change(self, now):
        """Return when the free share changes next."""
        i = bisect_right(self._moments, now)
        return self._moments[i] if i < len(self._moments) else math.inf

    def add(self, start, end, share, horizon):
        """Add a used share from `start` to `end`; forget the time before `horizon`."""
        old = bisect_right(self._moments, horizon) - 1
        if old > 0:
            del self._moments[:old], self._used[:old]
        first, last = self._split_at(start), self._split_at(end)
        for i in range(first, last):
            self._used[i] += share

    def _split_at(self, moment):
        i = bisect_left(self._moments, moment)
        if i == len(self._moments) or self._moments[i] != moment:
            self._moments.insert(i, moment)
            self._used.insert(i, self._used[i - 1] if i else 0.0)
        return i


class Links:
    """The edges of a cluster, and their use."""

    def __init__(self):
        self._edges = defaultdict(_EdgeUse)

    def advance(self, transfers, now) -> tuple:
        """Advance transfers until one of them starts or ends, or a free share changes.

        Returns
        -------
        float
            The time of that event.
        list of Transfer
            The transfers that have ended.
        """
        moving = [transfer for transfer in transfers if transfer.begin <= now]
        later = [transfer.begin for transfer in transfers if transfer.begin > now]
        if not moving:
            return min(later), []
        self._set_speeds(moving, now)
        ends = [transfer.end(now) for transfer in moving]
        until = min(*ends, *later, self._next_change(moving, now))
        for transfer in moving:
            transfer.move(now, until)
        return until, [transfer for transfer, end in zip(moving, ends, strict=True) if end <= until]

    def _set_speeds(self, transfers, now):
        demand = defaultdict(float)
        for transfer in transfers:
            for edge, share in transfer.shares.items():
                demand[edge] += share
        for transfer in transfers:
            rates = (self._edges[edge].free(now) / demand[edge] for edge in transfer.shares)
            transfer.speed = min(1.0, min(rates, default=1.0))

    def _next_change(self, transfers, now):
        edges = {edge for transfer in transfers for edge in transfer.shares}
        return min((self._edges[edge].next_change(now) for edge in edges), default=math.inf)

    def reserve(self, transfers, horizon):
        """Record the use of finished transfers; later ones get the rest."""
        for transfer in transfers:
            for start, end, speed in transfer.pieces:
                for edge, share in transfer.shares.items():
                    self._edges[edge].add(start, end, share * speed, horizon)
