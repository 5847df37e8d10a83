"""An engine does one thing at a time: a device's kernels, or one direction of a link."""

from bisect import bisect_left

_MAX_OLD = 32  # intervals; from this many on, those that are over are dropped


class Engine:
    """The busy times of one engine, as sorted intervals that do not touch.

    Work goes into the first gap that is long enough, so a kernel that still waits for an event
    does not block a ready kernel that was issued later in another stream.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self):
        self._starts: list[float] = []
        self._ends: list[float] = []

    def earliest(self, ready: float, duration: float) -> float:
        """Return the earliest time from `ready` on at which `duration` seconds are free."""
        ends = self._ends
        if not ends or ready >= ends[-1]:
            return ready
        starts = self._starts
        i = bisect_left(ends, ready)
        while i < len(ends):
            if ready + duration <= starts[i]:
                return ready
            if ends[i] > ready:
                ready = ends[i]
            i += 1
        return ready

    def take(self, ready: float, duration: float, horizon: float) -> float:
        """Book the first gap from `ready` on, and return its start: `earliest`, then `book`.

        Most work starts after everything that is booked, which takes no search.
        """
        starts, ends = self._starts, self._ends
        if not ends or ready < ends[-1] or len(ends) >= _MAX_OLD or duration <= 0:
            start = self.earliest(ready, duration)
            self.book(start, start + duration, horizon)
            return start
        end = ready + duration
        if end > ready == ends[-1]:
            ends[-1] = end
        elif end > ready and ends[-1] < horizon:  # the last interval is over: reuse its entry
            starts[-1], ends[-1] = ready, end
        elif end > ready:
            starts += [ready]  # not append(): see `book`
            ends += [end]
        return ready

    def book(self, start: float, end: float, horizon: float) -> None:
        """Mark `start` to `end` as busy; drop what ended before `horizon` (the host's time)."""
        if end <= start:
            return
        starts, ends = self._starts, self._ends
        if ends and ends[0] < horizon:
            old = bisect_left(ends, horizon)
            del starts[:old], ends[:old]
        i = bisect_left(ends, start)
        if i < len(ends) and ends[i] == start:  # joins the interval before it
            ends[i] = end
            if i + 1 < len(starts) and starts[i + 1] == end:
                ends[i] = ends[i + 1]
                del starts[i + 1], ends[i + 1]
        elif i < len(starts) and starts[i] == end:  # joins the interval after it
            starts[i] = start
        else:
            starts[i:i] = [start]  # not insert(): an interrupt may come between two calls
            ends[i:i] = [end]

    def clear(self) -> None:
        """Remove all bookings."""
        self._starts.clear()
        self._ends.clear()


def reserve(engines, ready: float, duration: float, horizon: float) -> float:
    """Book the first gap that all `engines` share from `ready` on, and return its start."""
    start = ready
    while True:
        moved = start
        for engine in engines:
            moved = engine.earliest(moved, duration)
        if moved == start:
            break
        start = moved
    for engine in engines:
        engine.book(start, start + duration, horizon)
    return start
