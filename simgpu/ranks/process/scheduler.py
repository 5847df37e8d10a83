"""Run ranks as threads, one at a time: Note [One rank at a time] of `simgpu.ranks`."""

import contextvars
import queue
import sys
import threading
import time
from contextlib import suppress

import torch

from simgpu import user_frame
from simgpu.ranks.process import describe_ranks
from simgpu.ranks.process.stillness import Stillness


class RanksError(RuntimeError):
    """An error between ranks, such as a deadlock or mismatched calls; it names ranks and lines."""


class Stopped(BaseException):
    """Ends the thread of a rank after another one has failed."""


class Rank:
    """One rank: its thread, what it waits for, and its result."""

    def __init__(self, number, index, local, world_size, clock, state):
        self.number, self.world_size = number, world_size
        self.index, self.local = index, local  # of its device: on the machine, and on its node
        self.clock, self.state = clock, state  # restored when it runs
        self.thread = None  # runs its program
        # Written in C: a Semaphore waits in Condition.wait, which ranks replace (threads.py), and
        # another thread may make this rank the running one before it waits there.
        self.go = queue.SimpleQueue()
        self.is_ready = None  # a function while the rank waits
        self.describe_wait = None  # a function that returns what it waits for, in words
        self.must_wait = True  # False: it may resume when no rank is ready
        self.deadline = None  # when it stops waiting, in simulated seconds; None: never
        self.away = 0.0  # real seconds in which it stood still and others ran
        self.ended = self.killed = False
        self.result = None

    @property
    def is_leaving(self) -> bool:
        """Whether its program has ended, and its thread not yet."""
        return self.ended and not self.killed and self.thread.is_alive()


class CooperativeScheduler:
    """Runs a function on several ranks, one at a time; ranks yield when they have to wait."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.by_number = {rank.number: rank for rank in ranks}
        self.running = None  # the current rank
        self.error = None
        self.on_end = None  # called when the last rank has ended
        self.on_stall = None  # called when no rank is ready; returns whether one may have become so
        self.explain_deadlock = None  # returns further lines of the error about a deadlock

    def wait(self, is_ready, describe_wait, must_wait=True, deadline=None) -> bool:
        """Run other ranks until ``is_ready()``; this takes no simulated time.

        Parameters
        ----------
        is_ready : callable
            Called whenever another rank stops running.
        describe_wait : callable
            Returns what the rank waits for, in words; used if no rank is ready.
        must_wait : bool
            If False, the rank resumes when no rank is ready, even if it is not.
        deadline : float, optional
            A time at which the rank stops waiting, in simulated seconds. It does so when no other
            rank can go on, and none of them has an earlier deadline.

        Returns
        -------
        bool
            Whether it is ready.
        """
        if self.error is not None:
            raise Stopped
        if is_ready():
            return True
        rank = self.running
        rank.is_ready, rank.describe_wait, rank.must_wait = is_ready, describe_wait, must_wait
        rank.deadline = deadline
        self._switch()
        rank.is_ready = rank.describe_wait = rank.deadline = None  # they may keep tensors alive
        if self.error is not None:
            raise Stopped
        return is_ready()

    def run(self, function) -> None:
        """Run ``function(rank)`` on all ranks; raise the first error of any of them."""
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run,  # else context variables were unset
                args=(self._run_one, rank, function),
                name="MainThread",  # as in a process of the rank's own
                daemon=True,
            )
            for rank in self.ranks
        ]
        stillness = Stillness(self.ranks)
        for rank, thread in zip(self.ranks, threads, strict=True):
            rank.thread = thread
            thread.start()
        try:
            self._resume(self.ranks[0])
            for rank, thread in zip(self.ranks, threads, strict=True):
                while thread.is_alive() and not rank.killed:
                    thread.join(timeout=0.1)  # else a Ctrl-C just before the join would wait
                    if self.error is None and (reason := stillness.look(self.running)):
                        raise RanksError(reason)
        except BaseException as error:
            self._stop(error)
            self._await_stopped(seconds=1)
            raise
        if self.error is not None:
            raise self.error

    def fail(self, error) -> None:
        """End all ranks because of an error in a thread that one of them has started; raise it."""
        self._stop(error)
        raise error

    def kill(self) -> None:
        """End the current rank as SIGKILL ends a process: none of its code runs again."""
        rank = self.running
        rank.ended = rank.killed = True
        if any(not r.ended for r in self.ranks):
            self._switch()
        while True:  # not an exception: it would run the program's ``finally:``
            rank.go.get()

    def _await_stopped(self, seconds):
        """Wait at most `seconds` for the ranks to stop, which they do at their next wait."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not all(rank.ended for rank in self.ranks):
            time.sleep(0.01)

    def _run_one(self, rank, function):
        self._await_turn(rank)
        try:
            if self.error is None:
                with torch.autograd.set_multithreading_enabled(False):
                    rank.result = function(rank)
                    if self.on_end is not None and sum(not r.ended for r in self.ranks) == 1:
                        self.on_end()
        except Stopped:
            pass
        except BaseException as error:
            with suppress(Exception):  # a status that cannot be described must not hide the error
                self._add_context(rank, error)
            self._stop(error)
        finally:
            rank.ended = True
        if self.error is None and any(not r.ended for r in self.ranks):
            self._switch()

    def _add_context(self, rank, error):
        """Add to an error the rank on which it happened, and the status of the others."""
        line = user_frame.line_of_error(error)
        text = f"on rank {rank.number}" + (f", at {line}" if line else "")
        others = self._statuses(other for other in self.ranks if other is not rank)
        if others and not isinstance(error, RanksError):
            text += "; meanwhile " + "; ".join(others[:MAX_LINES])
        if hasattr(error, "add_note"):
            error.add_note(text)
        else:  # Python 3.10 shows no notes
            error.__notes__ = [text]
            print(text, file=sys.stderr)

    def _statuses(self, ranks):
        return describe_ranks.lines({rank.number: self._status(rank) for rank in ranks})

    def _status(self, rank):
        if rank.killed:
            return "was killed"
        if rank.ended:
            return "has ended"
        return rank.describe_wait() if rank.describe_wait is not None else "is ready"

    def _switch(self):
        """Switch to the next ready rank, and block until the scheduler switches back."""
        rank = self.running
        next_rank = self._next_ready()
        while next_rank is None and self.on_stall is not None and self.on_stall():
            next_rank = self._next_ready()
        if next_rank is None:
            next_rank = self._next_ready(must_wait=False) or self._first_to_time_out()
        if next_rank is rank:
            return
        if next_rank is None:
            self._stop(self._deadlock())
            return
        rank.clock.save()
        rank.state.save()
        self._resume(next_rank)
        if not rank.ended:
            began = time.monotonic()
            self._await_turn(rank)
            rank.away += time.monotonic() - began

    def _await_turn(self, rank):
        """Block until the scheduler switches to a rank, and threads of ended ranks are gone.

        A thread that ends while another calls DTensor for the first time hangs in PyTorch 2.11.
        """
        rank.go.get()
        while self.error is None and (gone := [r for r in self.ranks if r.is_leaving]):
            gone[0].thread.join()

    def _resume(self, rank):
        self.running = rank
        rank.clock.restore()
        rank.state.restore()
        rank.go.put(None)

    def _next_ready(self, must_wait=True):
        """Return the next rank that is ready (or, on request, need not wait); None: no rank is."""
        first = self.running.index + 1
        for rank in self.ranks[first:] + self.ranks[:first]:
            if rank.ended:
                continue
            if rank.is_ready is None or rank.is_ready() or not (must_wait or rank.must_wait):
                return rank
        return None

    def _first_to_time_out(self):
        """Return the rank whose wait has the earliest deadline; None if none has one."""
        timed = [rank for rank in self.ranks if not rank.ended and rank.deadline is not None]
        return min(timed, key=lambda rank: rank.deadline, default=None)

    def _deadlock(self):
        lines = self._statuses(self.ranks)
        if len(lines) > MAX_LINES:
            lines[MAX_LINES:] = [f"and {len(lines) - MAX_LINES} more lines"]
        if self.explain_deadlock is not None:
            lines += self.explain_deadlock()
        return RanksError("\n  ".join(["deadlock: no rank can go on", *lines]))

    def _stop(self, error):
        """Stop all ranks because of an error."""
        if self.error is None:
            self.error = error
        for rank in self.ranks:
            rank.go.put(None)


MAX_LINES = 16  # lines in one message
