"""An engine does one thing at a time: a device's kernels, or one direction of a link."""

from bisect import bisect_left

_MAX_OLD = 32  # intervals, from which on the old ones are dropped


class Engine:
    """The busy times of one engine, as sorted intervals that do not touch.

    Work is placed into the first gap that is long enough, so that a kernel which still waits for
    an event does not hold up a ready kernel of another stream that was issued after it.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self):
        self._starts: list[float] = []
        self._ends: list[float] = []

    def earliest(self, ready: float, duration: float) -> float:
        """Return the first moment from `ready` on with `duration` free seconds after it."""
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
        """Book the first gap from `ready` on, and return its start: `earliest` and `book`.

        Most work comes behind all that is booked; for it there is nothing to look up.
        """
        starts, ends = self._starts, self._ends
        if not ends or ready < ends[-1] or len(ends) >= _MAX_OLD or duration <= 0:
            start = self.earliest(ready, duration)
            self.book(start, start + duration, horizon)
            return start
        end = ready + duration
        if end > ready == ends[-1]:
            ends[-1] = end
        elif end > ready and ends[-1] < horizon:  # what was last is over: this takes its place
            starts[-1], ends[-1] = ready, end
        elif end > ready:
            starts += [ready]  # not append(): see `book`
            ends += [end]
        return ready

    def book(self, start: float, end: float, horizon: float) -> None:
        """Mark `start` to `end` as busy; forget what ended before `horizon` (the host's now)."""
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
            starts[i:i] = [start]  # not insert(): between two calls an interrupt may come
            ends[i:i] = [end]

    def clear(self) -> None:
        """Make the engine free at all times."""
        self._starts.clear()
        self._ends.clear()


def reserve(engines, ready: float, duration: float, horizon: float) -> float:
    """Book the first common gap of all `engines` from `ready` on, and return its start."""
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
