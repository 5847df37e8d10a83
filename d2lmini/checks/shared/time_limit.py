"""A time limit for solutions, so that an endless loop also gets a message."""

import signal
import threading
from contextlib import contextmanager

SECONDS = 60  # a call of a right solution takes well under one


class TimeIsUpError(BaseException):
    """Not an `Exception`, which the solution might catch."""


@contextmanager
def time_limit(seconds=None):
    """Raise `TimeIsUpError` in the block after `seconds`, 60 by default.

    This needs a system with alarms (not Windows), the main thread, and no other alarm that is set;
    otherwise there is no limit.
    """
    seconds = SECONDS if seconds is None else seconds
    possible = hasattr(signal, "setitimer")
    possible = possible and threading.current_thread() is threading.main_thread()
    if not possible or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return
    former = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def _stop(number, frame):
    raise TimeIsUpError
