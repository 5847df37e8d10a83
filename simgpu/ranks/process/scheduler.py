"""Ranks as threads, of which one runs at a time.

A rank runs until it needs what another rank has not done yet, then hands the baton on to the next
one that can go on. So nothing ever happens at the same time, and a program's values, times and
errors are the same in every run. If no rank can go on, the program hangs, and says so.
"""

import sys
import threading
import time

import torch

from simgpu.ranks.process import user_frame


class RanksError(RuntimeError):
    """The ranks of a program cannot go on together: who waits, for whom, at which lines."""


class Stopped(BaseException):
    """Ends the thread of a rank after another one has failed."""


class Rank:
    """One rank: its thread, what it waits for, and what came of it."""

    def __init__(self, number, index, local, world_size, clock, state):
        self.number, self.world_size = number, world_size
        self.index, self.local = index, local  # of its device: among all, and on its node
        self.clock, self.state = clock, state  # its own, swapped in when it runs
        self.go = threading.Semaphore(0)
        self.can_go_on = None  # a function, while it waits
        self.waits_for = None  # a function, too: says so in words
        self.patient = True  # whether it must wait, come what may
        self.ended = False
        self.result = None


class Baton:
    """Runs a function on several ranks, one at a time."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.by_number = {rank.number: rank for rank in ranks}
        self.holder = None  # the rank that runs
        self.error = None
        self.ending = None  # what to check when all ranks have ended
        self.when_stuck = None  # asked for help when no rank can go on: whether one may now

    def wait(self, can_go_on, waits_for, patient=True) -> None:
        """Let other ranks run until `can_go_on()`; costs no simulated time.

        Parameters
        ----------
        can_go_on : callable
            Asked whenever another rank hands the baton on.
        waits_for : callable
            Returns what the rank waits for, in words, should nobody be able to go on.
        patient : bool
            Whether it waits even then; otherwise it goes on all the same.
        """
        if self.error is not None:
            raise Stopped
        if can_go_on():
            return
        rank = self.holder
        rank.can_go_on, rank.waits_for, rank.patient = can_go_on, waits_for, patient
        self._hand_on()
        rank.can_go_on = rank.waits_for = None  # they may hold tensors
        if self.error is not None:
            raise Stopped

    def run(self, function) -> None:
        """Run ``function(rank)`` on all ranks; raise the first error of any of them."""
        threads = [
            threading.Thread(target=self._run_one, args=(rank, function), daemon=True)
            for rank in self.ranks
        ]
        for thread in threads:
            thread.start()
        try:
            self._let_run(self.ranks[0])
            for thread in threads:
                while thread.is_alive():
                    thread.join(timeout=0.1)  # a Ctrl-C just before the wait is noticed after it
        except BaseException as error:
            self._stop(error)
            self._let_end(seconds=1)
            raise
        if self.error is not None:
            raise self.error

    def _let_end(self, seconds):
        """Wait, but not longer than that, for ranks that are stopped at their next collective."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not all(rank.ended for rank in self.ranks):
            time.sleep(0.01)

    def _run_one(self, rank, function):
        rank.go.acquire()
        try:
            if self.error is None:
                with torch.autograd.set_multithreading_enabled(False):
                    rank.result = function(rank)
                    if self.ending is not None and sum(not r.ended for r in self.ranks) == 1:
                        self.ending()
        except Stopped:
            pass
        except BaseException as error:
            self._explain(rank, error)
            self._stop(error)
        finally:
            rank.ended = True
        if self.error is None and any(not r.ended for r in self.ranks):
            self._hand_on()

    def _explain(self, rank, error):
        """Tell, with an error, on which rank it happened and what the others were doing."""
        line = user_frame.line_of_error(error)
        text = f"on rank {rank.number}" + (f", at {line}" if line else "")
        others = [f"rank {r.number} {self._doing(r)}" for r in self.ranks if r is not rank]
        if others and not isinstance(error, RanksError):
            text += "; meanwhile " + "; ".join(others[:MAX_NAMED])
        if hasattr(error, "add_note"):
            error.add_note(text)
        else:  # Python 3.10 shows no notes
            error.__notes__ = [text]
            print(text, file=sys.stderr)

    def _doing(self, rank):
        if rank.ended:
            return "has ended"
        return rank.waits_for() if rank.waits_for is not None else "could go on"

    def _hand_on(self):
        """Give the baton to the next rank that can go on, and wait for it to come back."""
        rank = self.holder
        following = self._next()
        if following is None and self.when_stuck is not None and self.when_stuck():
            following = self._next()
        if following is None:
            following = self._next(patient=False)
        if following is rank:
            return
        if following is None:
            self._stop(self._deadlock())
            return
        rank.clock.save()
        rank.state.save()
        self._let_run(following)
        if not rank.ended:
            rank.go.acquire()

    def _let_run(self, rank):
        self.holder = rank
        rank.clock.restore()
        rank.state.restore()
        rank.go.release()

    def _next(self, patient=True):
        """Return the next rank that can go on, or need not wait any longer."""
        first = self.holder.index + 1
        for rank in self.ranks[first:] + self.ranks[:first]:
            if rank.ended:
                continue
            if rank.can_go_on is None or rank.can_go_on() or not (patient or rank.patient):
                return rank
        return None

    def _deadlock(self):
        lines = [f"  rank {rank.number} {self._doing(rank)}" for rank in self.ranks]
        if len(lines) > MAX_NAMED:
            lines[MAX_NAMED:] = [f"  and {len(lines) - MAX_NAMED} more ranks"]
        return RanksError("deadlock: no rank can go on\n" + "\n".join(lines))

    def _stop(self, error):
        """End all other ranks."""
        if self.error is None:
            self.error = error
        for rank in self.ranks:
            rank.go.release()


MAX_NAMED = 16  # ranks in one message
