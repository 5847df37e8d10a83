"""The links of a cluster and how collectives share them over time.

A collective that shares its links with no other takes `Cost.seconds`: its latency, in which it
moves nothing, then its bytes at full speed. At full speed it occupies a share of each of its edges,
all of the slowest one. If several demand more of an edge than it has, all are slowed by the same
factor until the demand changes: two that want all of it get half each.

A collective may be issued when others, which some rank had to know about, have been followed beyond
its start. It gets its share all the same, but does not delay those. What an edge has carried too
much then is a debt, for which later traffic waits: so over time no edge carries more than it can.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict

NEGLIGIBLE = 1e-12  # seconds of an edge


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
        self.followed_to = ready + cost.latency  # at first: when its bytes start to move
        self.shares = shares
        self.speed = 1.0
        self._end_at_full_speed = ready + cost.seconds
        self._remaining = max(cost.seconds - cost.latency, 0.0)  # seconds at full speed
        self._slowed = False

    def end(self):
        """Return when it ends at its current speed."""
        if self.speed == 1.0 and not self._slowed:
            return self._end_at_full_speed  # free of rounding errors
        return self.followed_to + self._remaining / self.speed if self.speed else math.inf

    def move(self, until):
        """Move bytes at its current speed until the given time."""
        moved = self.speed * (until - self.followed_to)
        self._remaining = max(self._remaining - moved, 0.0)
        self._slowed |= self.speed != 1.0
        self.followed_to = until


class _EdgeUse:
    """How one edge is used over time: step functions, 0 from the last moment on."""

    __slots__ = ("_demanded", "_moments", "_used")

    def __init__(self):
        self._moments, self._used, self._demanded = [], [], []  # [i]: from moments[i] on

    def rate(self, now, demand):
        """Return at which speed those run that demand shares at `now`, `demand` in all."""
        i = bisect_right(self._moments, now) - 1
        if i < 0:
            return 1 / demand
        return max((1.0 - self._used[i]) / demand, 1 / (demand + self._demanded[i]))

    def next_change(self, now):
        """Return when the use changes next."""
        i = bisect_right(self._moments, now)
        return self._moments[i] if i < len(self._moments) else math.inf

    def add(self, start, end, share, speed, horizon):
        """Add a use from `start` to `end`; forget the time before `horizon`."""
        old = bisect_right(self._moments, horizon) - 1
        if old > 0:
            del self._moments[:old], self._used[:old], self._demanded[:old]
        first, last = self._split_at(start), self._split_at(end)
        debt = 0.0
        for i in range(first, last):
            self._demanded[i] += share
            self._used[i] += share * speed
            if self._used[i] > 1.0:
                debt += (self._used[i] - 1.0) * (self._moments[i + 1] - self._moments[i])
                self._used[i] = 1.0
        if debt > NEGLIGIBLE:
            self._work_off(debt, last)

    def _work_off(self, debt, i):
        """Use all that is free from the moment `i` on, before others get any of it."""
        while debt > NEGLIGIBLE:
            free, start = 1.0 - self._used[i], self._moments[i]
            if free > 0.0:
                end = min(start + debt / free, self.next_change(start))
                self._split_at(end)
                debt -= free * (end - start)
                self._used[i], self._demanded[i] = 1.0, math.inf
            i += 1

    def _split_at(self, moment):
        i = bisect_left(self._moments, moment)
        if i == len(self._moments) or self._moments[i] != moment:
            self._moments.insert(i, moment)
            self._used.insert(i, self._used[i - 1] if i else 0.0)
            self._demanded.insert(i, self._demanded[i - 1] if i else 0.0)
        return i


class Links:
    """The edges of a cluster, and their use."""

    def __init__(self):
        self._edges = defaultdict(_EdgeUse)

    def advance(self, transfers, horizon) -> list:
        """Follow those that have been followed least far, up to where their speed may change.

        Parameters
        ----------
        transfers : list of Transfer
        horizon : float
            Later transfers start at this time at the earliest.

        Returns
        -------
        list of Transfer
            The transfers that have ended, all at the same time.
        """
        now = min(transfer.followed_to for transfer in transfers)
        moving = [transfer for transfer in transfers if transfer.followed_to == now]
        later = [transfer.followed_to for transfer in transfers if transfer.followed_to > now]
        self._set_speeds(moving, now)
        ends = [transfer.end() for transfer in moving]
        until = min(*ends, *later, self._next_change(moving, now))
        for transfer in moving:
            transfer.move(until)
            for edge, share in transfer.shares.items():
                self._edges[edge].add(now, until, share, transfer.speed, horizon)
        return [transfer for transfer, end in zip(moving, ends, strict=True) if end <= until]

    def _set_speeds(self, transfers, now):
        demand = defaultdict(float)
        for transfer in transfers:
            for edge, share in transfer.shares.items():
                demand[edge] += share
        for transfer in transfers:
            rates = (self._edges[edge].rate(now, demand[edge]) for edge in transfer.shares)
            transfer.speed = min(1.0, min(rates, default=1.0))

    def _next_change(self, transfers, now):
        edges = {edge for transfer in transfers for edge in transfer.shares}
        return min((self._edges[edge].next_change(now) for edge in edges), default=math.inf)
