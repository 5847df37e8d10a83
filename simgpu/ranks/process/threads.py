"""Which rank a thread is, and waits of one rank for another by the means of `threading`.

``Event``, ``Queue``, ``Barrier`` and ``Semaphore`` all wait in ``Condition.wait``. A rank that
waited there for another would wait for ever, since no other runs meanwhile. So it lets the others
run. Threads that the program has started, such as those of an executor, may notify it, too: for
these it really waits. A ``Lock`` is written in C: a rank must not keep one while it waits for
others, if these take it as well.

A thread that a rank has started may communicate while the rank waits for it, by ``join()`` or the
like, but not while other ranks run. If two threads of a rank issue collectives of one group, and
neither is known to wait for the other, a warning names them (`Callers`).
"""

import asyncio
import functools
import itertools
import queue
import selectors
import sys
import threading
import time
import weakref
from concurrent import futures

from simgpu import user_frame
from simgpu.backend.pytorch.replacements import find
from simgpu.clock import current
from simgpu.ranks.process.scheduler import RanksError

_WAIT, _NOTIFY = "threading:Condition.wait", "threading:Condition.notify"
_START, _SIMPLE_QUEUE = "threading:Thread.start", "queue:SimpleQueue"
_MAIN = "threading:main_thread"
_owners: dict = weakref.WeakKeyDictionary()  # thread that a rank has started -> the rank
_begun: dict = weakref.WeakKeyDictionary()  # such a thread -> when it began, as `_moments` count
_notified: dict = {}  # ident of a thread -> when it notified others for the last time
_moments = itertools.count(1)
_OTHER_THREADS = 1.0  # seconds in which they may notify a rank before other ranks run


def running_rank():
    """Return the rank whose program runs in this thread; None in a thread that it started."""
    if current.ranks is None:
        return None
    rank = current.ranks.rank
    is_it = rank is not None and rank.thread is threading.current_thread()
    return rank if is_it else None


def replacements() -> dict:
    """Return the replacements while ranks run."""
    real, before = find(_WAIT), set(threading.enumerate())
    begin, tell, first = find(_START), find(_NOTIFY), find(_MAIN)

    @functools.wraps(first)
    def main_thread():
        owner = running_rank() or _owners.get(threading.current_thread())
        return first() if owner is None else owner.thread

    @functools.wraps(begin)
    def start(self):
        owner = running_rank() or _owners.get(threading.current_thread())
        if owner is not None:
            _owners[self], _begun[self] = owner, next(_moments)
        begin(self)

    @functools.wraps(tell)
    def notify(self, n=1):
        _note_notice()
        tell(self, n)

    class SimpleQueue(find(_SIMPLE_QUEUE)):  # is written in C, and hands work to an executor
        def put(self, *args, **kwargs):
            _note_notice()
            super().put(*args, **kwargs)

    @functools.wraps(real)
    def wait(self, timeout=None):
        # With a timeout of 0, a program asks only; it may hold a lock that other ranks take.
        if timeout == 0 or running_rank() is None or not self._is_owned():
            return real(self, timeout)
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        state, is_notified = self._release_save(), False
        try:
            is_notified = _acquire(waiter, timeout, before)
        finally:
            self._acquire_restore(state)
            if not is_notified and waiter in self._waiters:
                self._waiters.remove(waiter)
        return is_notified

    return {
        _WAIT: wait,
        _NOTIFY: notify,
        _START: start,
        _SIMPLE_QUEUE: SimpleQueue,
        _MAIN: main_thread,
    }


def _note_notice():
    """Note that the present thread lets another one go on."""
    _notified[threading.get_ident()] = next(_moments)


def check_turn() -> None:
    """End the job if a thread of one rank communicates while another rank runs.

    Raises
    ------
    RanksError
        Names the thread and its rank.
    """
    thread, world = threading.current_thread(), current.ranks
    if world is None or world.rank.thread is thread:
        return
    of_rank = {rank.thread: rank for rank in world.scheduler.ranks}
    owner = _owners.get(thread) or of_rank.get(thread)
    if owner not in (None, world.rank):
        world.scheduler.fail(
            RanksError(
                f"thread {thread.name!r} of rank {owner.number} communicates "
                f"({user_frame.line()}) while rank {world.rank.number} runs: simulated ranks run "
                "one at a time, so join() the thread before the rank communicates itself, or let "
                "the rank do it"
            )
        )


class Callers:
    """The threads of a rank that issue collectives in a group.

    NCCL and gloo match collectives by their order. That of two threads is chance, and may be
    another on each rank, unless one waits for the other: it has begun after the last call of the
    other, or the other has ended since, has notified somebody (by an `Event`, a `Queue` or the
    like), or stands in such a wait.
    """

    def __init__(self):
        self._last, self._moment = None, 0  # the thread that called last, and when
        self._has_warned = False

    def add(self, rank, name) -> None:
        """Note that the present thread issues a collective; warn if another one may, too.

        Parameters
        ----------
        rank : int
        name : str
            The collective.
        """
        thread, last = threading.current_thread(), self._last
        if not (last in (None, thread) or self._has_warned):
            is_later = max(_begun.get(thread, 0), _notified.get(last.ident, 0)) > self._moment
            if not is_later and last.is_alive() and (frame := _running(last)):
                self._has_warned = True
                user_frame.warn(
                    f"two threads of rank {rank} communicate at once in one group: {thread.name!r} "
                    f"calls {name} ({user_frame.line()}) while {last.name!r}, which called before "
                    f"it, is at {user_frame.line_of_frame(frame)}. Which of them comes first is "
                    "chance, and on another rank it may be the other one; real GPUs then hang, or "
                    "exchange the wrong tensors. Give each thread a group of its own (new_group), "
                    "or let one wait for the other"
                )
        self._last, self._moment = thread, next(_moments)


def _running(thread):
    """Return the frame in which a thread stands; None if it waits there for another one."""
    frame = found = sys._current_frames().get(thread.ident)
    while found is not None and not user_frame.is_user_code(found.f_code.co_filename):
        if found.f_code.co_filename.startswith(_WAITS):
            return None
        found = found.f_back
    return frame


_WAITS = (
    threading.__file__, queue.__file__, selectors.__file__, __file__,
    *(package.__file__.removesuffix("__init__.py") for package in (asyncio, futures)),
)  # fmt: skip


def _acquire(waiter, timeout, before):
    """Wait until a lock is released; return False after `timeout` seconds."""
    scheduler, line = current.ranks.scheduler, user_frame.line()
    rank = scheduler.running
    end = None if timeout is None else time.monotonic() + timeout

    def describe():
        return f"waits for an Event, a Queue or the like of threading ({line})"

    while True:
        others = _other_threads(scheduler, before)
        if others:
            left = _OTHER_THREADS if end is None else end - time.monotonic()
            if waiter.acquire(timeout=max(0.0, min(left, _OTHER_THREADS))):
                return True
            if rank.is_ready is not None:  # one of them communicates, and lets other ranks run
                continue
        must_wait = timeout is None and not others
        if scheduler.wait(lambda: not waiter.locked(), describe, must_wait):
            return True
        if end is not None and (not others or time.monotonic() >= end):
            return False  # no rank is left that could notify it, or it is too late


def _other_threads(scheduler, before):
    """Return whether there are threads that the program has started."""
    ranks = {rank.thread for rank in scheduler.ranks}
    return bool(set(threading.enumerate()) - before - ranks)
