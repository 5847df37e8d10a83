"""Give scripts the simulated clock: `time.time`, `perf_counter`, `monotonic` and `sleep`.

A script that divides tokens by seconds then prints what it would print on those GPUs. As there,
reading the clock does not wait for the device: a script that times kernels synchronises first. The
clock is that of the rank's host, so ranks read different times until something makes them wait for
each other.

`perf_counter` and `monotonic` begin at 0. `time.time` begins at the time of day, in whole seconds:
differences then round in the same way in every run. Python, PyTorch and the simulator itself keep
the real clock, which they need for time limits and log records; so do processes that a script
starts, and packages whose time limits are for such processes (`WAITING`). Threads that are no
ranks, and a rank that really waits, see a clock that moves with real time while the simulated one
stands still: a time limit ends as it does under torchrun. Real as well are `time.process_time`,
since all ranks are one process, ``datetime.now()``, which is written in C, and `timeit.timeit`
without ``timer=``.
"""

import functools
import math
import os
import sys
import threading
import time

from simgpu.backend.pytorch.replacements import Replacements
from simgpu.clock import current
from simgpu.clock.current import state
from simgpu.compiled.regions import break_graph
from simgpu.ranks.process.threads import running_rank
from simgpu.user_frame import is_user_code

# A program that reads the clock this often at one moment waits for it to move. (Fewer readings are
# free: rank 0 often reads it more often than the others, and must not fall behind them.)
MANY = 100_000
ONE_MORE = 1e-6  # what each further reading takes, in seconds
# A rank that reads the clock at one moment and in one line so often, and slept for this long (in
# real seconds) since it did before, waits for what happens outside: its readings move with real
# time.
POLLS, BLOCKED = 3, 0.01
# Pools, queues and locks of processes: they wait for real things, as `multiprocessing` does.
WAITING = ("multiprocess", "billiard", "loky", "filelock")


class _Thread(threading.local):
    """What is known of each thread: is it a rank, and what it read of the clock before.

    Attributes
    ----------
    last, readings : float, int
        The host's clock at the last reading, and how many before it were at the same moment.
    waited : float
        Real seconds in which the thread waited while the host's clock stood still.
    line, polls : tuple, int
        The line of the last reading, and how many were there at the same moment.
    real, own : float
        The real clock and the processor time of the process at the last reading.
    """

    is_rank, last, readings, waited = False, -1.0, 0, 0.0
    line, polls, real, own = None, 0, 0.0, 0.0


class SimulatedTime:
    """Replaces the functions of `time` inside a ``with`` block.

    Parameters
    ----------
    enabled : bool
        If False, nothing is replaced.
    """

    def __init__(self, enabled=True):
        self._enabled = enabled
        self._began = math.floor(time.time())
        self._earlier = 0.0  # simulated seconds of earlier runs of ranks
        self._thread = _Thread()
        self._replacements = Replacements()

    def __enter__(self):
        if self._enabled:
            clocks = {
                "time": self._time,
                "perf_counter": self._seconds,
                "monotonic": self._seconds,
                "time_ns": lambda: round(self._seconds() * 1e9) + self._began * 10**9,
                "perf_counter_ns": lambda: round(self._seconds() * 1e9),
                "monotonic_ns": lambda: round(self._seconds() * 1e9),
            }
            new = {f"time:{name}": _in_scripts(clocks[name], name) for name in clocks}
            new["timeit:default_timer"] = new["time:perf_counter"]
            new["time:sleep"] = _in_scripts(self._sleep, "sleep")
            self._replacements.add(new)
        return self

    def __exit__(self, *_):
        self._replacements.close()

    def begin_rank(self) -> None:
        """Record that the calling thread is a rank, whose sleep() moves its host's clock."""
        self._thread.is_rank = True

    def begin_run(self) -> None:
        """Continue the clock from here, although the next machine's begins at 0."""
        if state.machine is not None:
            self._earlier += state.machine.host

    def _time(self):
        return self._began + self._seconds()

    def _seconds(self):
        own = self._thread
        if not own.is_rank:
            return self._seconds_outside(own)
        stands_still = state.machine.host == own.last
        own.readings = own.readings + 1 if stands_still else 0
        own.waited += _blocked(own, stands_still)
        if own.readings > MANY:
            self._sleep(ONE_MORE)
            own.real = time.perf_counter()  # others ran meanwhile
        own.last = state.machine.host
        return self._earlier + own.last + own.waited

    def _seconds_outside(self, own):
        """Read the clock in a thread that is no rank: it moves while that of the ranks stands."""
        host, now = self._earlier + state.machine.host, time.perf_counter()
        if host <= own.last:
            own.waited += now - own.real
        own.last, own.real = max(own.last, host), now
        return own.last + own.waited

    def _sleep(self, seconds):
        """Move the host's clock, and let other ranks go on: the program may wait for them."""
        if not self._thread.is_rank:
            time.sleep(seconds)
            return
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        state.machine.compute_on_host("sleep", float(seconds))
        _let_others_go_on()


def _let_others_go_on():
    if running_rank() is not None:
        current.ranks.scheduler.wait(lambda: False, None, must_wait=False)


def _blocked(own, stands_still):
    """Return how long a rank was blocked since its last reading, if it polls; 0 otherwise."""
    line, now, busy = _calling_line(), time.perf_counter(), time.process_time()
    own.polls = own.polls + 1 if stands_still and line == own.line else 0
    seconds, computed = now - own.real, busy - own.own
    own.line, own.real, own.own = line, now, busy
    is_blocked = seconds > BLOCKED and computed < seconds / 2
    return seconds if own.polls >= POLLS and is_blocked else 0.0


def _calling_line():
    frame = sys._getframe()
    while frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame.f_code, frame.f_lineno


@functools.lru_cache(4096)
def _waits_for_processes(filename):
    """Return whether a file is of a package whose time limits are for real processes."""
    return not set(WAITING).isdisjoint(os.path.normpath(filename).split(os.sep)[:-1])


def _in_scripts(simulated, name):
    """Return a function of `time` that is simulated where a script or a library calls it."""
    real = getattr(time, name)

    @functools.wraps(real)
    def function(*args):
        caller = sys._getframe(1).f_code.co_filename
        if state.machine is None or not is_user_code(caller):  # None: a process of its own
            return real(*args)
        if _waits_for_processes(caller):
            if name == "sleep":
                _let_others_go_on()
            return real(*args)
        break_graph(f"time.{name}()")
        return simulated(*args)

    return function
