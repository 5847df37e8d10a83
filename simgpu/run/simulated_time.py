"""Give scripts the simulated clock: `time.time`, `perf_counter`, `monotonic` and `sleep`.

A script that divides tokens by seconds then prints what it would print on those GPUs. As there,
reading the clock does not wait for the device: a script that times kernels synchronises first. The
clock is that of the rank's host, so ranks read different times until something makes them wait for
each other.

`perf_counter` and `monotonic` begin at 0. `time.time` begins at the time of day, in whole seconds:
differences then round in the same way in every run. Python, PyTorch and the simulator itself keep
the real clock, which they need for time limits and log records; so do processes that a script
starts. Real as well are `time.process_time`, since all ranks are one process,
``datetime.now()``, which is written in C, and `timeit.timeit` without ``timer=``.
"""

import functools
import math
import sys
import threading
import time

from simgpu.backend.pytorch.replacements import Replacements
from simgpu.clock import current
from simgpu.clock.current import state
from simgpu.compiled.regions import break_graph
from simgpu.user_frame import is_user_code

# A program that reads the clock this often at one moment waits for it to move. (Fewer readings are
# free: rank 0 often reads it more often than the others, and must not fall behind them.)
MANY = 1_000_000
ONE_MORE = 1e-6  # what each further reading takes, in seconds


class _Thread(threading.local):
    """What is known of each thread: is it a rank, and how often it read the clock at one moment."""

    is_rank, last, readings = False, -1.0, 0


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
        own.readings = own.readings + 1 if state.machine.host == own.last else 0
        if own.readings > MANY:
            self._sleep(ONE_MORE)
        own.last = state.machine.host
        return self._earlier + own.last

    def _sleep(self, seconds):
        """Move the host's clock, and let other ranks go on: the program may wait for them."""
        if not self._thread.is_rank:
            time.sleep(seconds)
            return
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        state.machine.compute_on_host("sleep", float(seconds))
        if current.ranks is not None:
            current.ranks.scheduler.wait(lambda: False, None, must_wait=False)


def _in_scripts(simulated, name):
    """Return a function of `time` that is simulated where a script or a library calls it."""
    real = getattr(time, name)

    @functools.wraps(real)
    def function(*args):
        caller = sys._getframe(1).f_code.co_filename
        if state.machine is None or not is_user_code(caller):  # None: a process of its own
            return real(*args)
        break_graph(f"time.{name}()")
        return simulated(*args)

    return function
