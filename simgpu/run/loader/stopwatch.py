"""How long a thread has worked or waited for data: real time, without that of other programs."""

import time


class Stopwatch:
    """Measures from now on, in the thread that reads it.

    Time in which the thread could have run, and something else had the core, is left out, as far as
    Linux tells it. So a busy machine measures almost what an idle one does.

    Parameters
    ----------
    away : callable, optional
        Returns the seconds in which the thread has stood still for other ranks; they do not count.
    """

    def __init__(self, away=lambda: 0.0):
        self._away = away
        self._outside, self._computed = away() + _waited(), time.thread_time()
        self._began = time.perf_counter()

    def read(self) -> float:
        """Return the seconds until now."""
        seconds, computed = time.perf_counter() - self._began, self.computed()
        return max(seconds - (self._away() + _waited() - self._outside), computed)

    def computed(self) -> float:
        """Return the seconds until now in which the thread has computed, and not waited."""
        return time.thread_time() - self._computed


def _waited():
    """Return the seconds for which this thread has waited for a core."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):  # not Linux, or a kernel that does not count
        return 0.0
