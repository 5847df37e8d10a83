"""Watch ranks that stand still: say which thread waits where, and find locks that never open.

A rank that waits for another lets that one run. One that waits for a lock, in C, does not; if a
rank that cannot run meanwhile holds the lock, no rank ever goes on.
"""

import linecache
import os
import re
import sys
import threading
import time
from pathlib import Path

from simgpu import user_frame

SAY_AFTER = 30.0  # real seconds without any progress
CERTAIN_AFTER = 3.0  # of these in which a rank waits for a lock that no thread can release
_AGAIN = 20  # times as long until the next report
_PERIOD = 1.0  # real seconds between two looks
_BUSY = 0.01  # share of a second of computing that is progress
_LOCKS = type(threading.Lock()), type(threading.RLock())
_WAITS = re.compile(r"\bwith ([\w.]+)|([\w.]+)\.acquire\(\)")
_ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Stillness:
    """What the ranks of a scheduler did when it was last looked at, and since when nothing moves.

    Parameters
    ----------
    ranks : list of Rank
    """

    def __init__(self, ranks):
        self._ranks, self._before = ranks, set(threading.enumerate())
        self._last = self._next = self._since = time.monotonic()
        self._say_at, self._places, self._used = SAY_AFTER, None, 0.0

    def look(self, running) -> str | None:
        """Look at all threads, at most once a second; print a report if nothing moves.

        Frames are asked for only while nothing is computed: whoever holds one keeps what its
        function has alive, and the memory of a simulated GPU with it.

        Parameters
        ----------
        running : Rank
            The one whose turn it is.

        Returns
        -------
        str or None
            The reason why no rank can ever go on, if that is certain.
        """
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + _PERIOD
        if self._computes(now):
            self._since, self._say_at, self._places = now, SAY_AFTER, None
        if now - self._since < CERTAIN_AFTER:
            return None
        frames = sys._current_frames()
        places = [_places(frames.get(rank.thread.ident)) for rank in self._ranks]
        if self._places not in (None, places):
            self._since, self._say_at = now, SAY_AFTER
        self._places, still = places, now - self._since
        if still >= CERTAIN_AFTER and (reason := self._never_ends(frames, running)):
            return reason
        if still >= self._say_at:
            self._say_at *= _AGAIN
            print(self._report(frames, still), file=sys.__stderr__ or sys.stderr, flush=True)
        return None

    def _computes(self, now):
        """Return whether anything has been computed since the last look."""
        used, seconds = _seconds_of_process(), now - self._last
        computed = used - self._used >= _BUSY * seconds
        self._used, self._last = used, now
        return computed

    def _never_ends(self, frames, running):
        """Return the reason if the running rank waits for a lock which no thread can release."""
        frame = frames.get(running.thread.ident)
        lock = _awaited(frame)
        if lock is None or self._other_threads():
            return None
        for rank in self._ranks:
            if rank is not running and not rank.ended and _holds(rank, lock, frames):
                return (
                    f"rank {running.number} waits for a lock ({_where(frame)}) that rank "
                    f"{rank.number} holds while it waits ({_where(frames[rank.thread.ident])}): "
                    "ranks are threads of one process, so a lock is common to all. Communicate "
                    "outside the lock; what a functools.cached_property (Python 3.11 and older) or "
                    "a logging.Handler does is inside one"
                )
        return None

    def _other_threads(self):
        return set(threading.enumerate()) - self._before - {rank.thread for rank in self._ranks}

    def _report(self, frames, still):
        lines = [
            f"rank {rank.number} stands at {_where(frames[rank.thread.ident])}"
            for rank in self._ranks
            if not rank.ended and rank.thread.ident in frames
        ][:_MAX_LINES]
        lines += [
            f"thread {thread.name!r} stands at {_where(frames[thread.ident])}"
            for thread in self._other_threads()
            if thread.ident in frames
        ][:_MAX_LINES]
        head = f"simgpu: nothing has moved for {still:.0f} s; a rank must not keep a lock while it "
        head += "communicates, and a loop that waits for the clock may need --wall-clock"
        return "\n  ".join([head, *lines])


_MAX_LINES = 16


def _frames(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


def _places(frame):
    """Return where a thread stands in the code of programs and libraries, down to the call."""
    return [
        (id(f.f_code), f.f_lasti)
        for f in _frames(frame)
        if user_frame.is_user_code(f.f_code.co_filename)
    ]


def _where(frame):
    """Return the innermost line of the user's or a library's code."""
    return user_frame.line_of_frame(frame)


def _seconds_of_process():
    """Return the seconds that threads but the caller's, and child processes, have computed."""
    times = os.times()
    ended = times.children_user + times.children_system
    running = sum(map(_seconds_of_child, _children()))
    return time.process_time() - time.thread_time() + ended + running


def _children():
    try:
        return " ".join(p.read_text() for p in Path("/proc/self/task").glob("*/children")).split()
    except OSError:
        return []


def _seconds_of_child(number):
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _ticks


def _awaited(frame):
    """Return the lock at whose ``with`` or ``acquire()`` a thread stands; None: at none."""
    if frame is None:
        return None
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    for found in _WAITS.finditer(text):
        value = _value(frame, (found[1] or found[2]).split("."))
        if isinstance(value, _LOCKS) and _is_taken(value):
            return value
    return None


def _value(frame, names):
    first, *attributes = names
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    for name in attributes:
        value = getattr(value, "__dict__", {}).get(name)
    return value


def _is_taken(lock):
    return lock.locked() if isinstance(lock, _LOCKS[0]) else "owner=0" not in repr(lock)


def _holds(rank, lock, frames):
    """Return whether a rank that waits holds a lock: its owner, or it stands in its block."""
    if isinstance(lock, _LOCKS[1]):
        return f"owner={rank.thread.ident} " in repr(lock)
    return any(_is_held_in(f, lock) for f in _frames(frames.get(rank.thread.ident)))


def _is_held_in(frame, lock):
    """Return whether one of the lines of the function above the current one takes the lock."""
    code = frame.f_code
    for number in range(code.co_firstlineno, frame.f_lineno + 1):
        text = linecache.getline(code.co_filename, number, frame.f_globals)
        for found in _WAITS.finditer(text):
            if _value(frame, (found[1] or found[2]).split(".")) is lock:
                return True
    return False
