"""Handlers of signals: each rank has its own, and runs them for the signals that it sends itself.

Python runs handlers in the main thread alone, and ranks are threads. A signal from outside, such as
Ctrl-C, is one for the process that all ranks share, and follows that process's handlers.
"""

import functools
import os
import signal
import sys
import weakref

from simgpu.backend.pytorch.replacements import exists, find
from simgpu.ranks.process import threads

_TIMERS = "signal:alarm", "signal:setitimer"
_handlers: dict = weakref.WeakKeyDictionary()  # rank -> its handlers by number


def _own():
    """Return the handlers of the rank that runs; none outside of ranks."""
    rank = threads.running_rank()
    return {} if rank is None else _handlers.setdefault(rank, {})


def _set(real):
    @functools.wraps(real)
    def set_handler(signalnum, handler):
        if threads.running_rank() is None:
            return real(signalnum, handler)
        number = signal.Signals(signalnum)
        if number in (signal.SIGKILL, signal.SIGSTOP):
            raise OSError(22, "Invalid argument")
        if not callable(handler) and handler not in (signal.SIG_DFL, signal.SIG_IGN):
            raise TypeError(
                "signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object"
            )
        before = signal.getsignal(number)
        _own()[number] = handler
        return before

    return set_handler


def _get(real):
    @functools.wraps(real)
    def get_handler(signalnum):
        own = _own()
        return own[signalnum] if signalnum in own else real(signalnum)

    return get_handler


def _raise(real):
    @functools.wraps(real)
    def raise_signal(signalnum):
        handler = _own().get(signalnum, signal.SIG_DFL)
        if callable(handler):
            handler(signalnum, sys._getframe(1))
        elif handler != signal.SIG_IGN:
            real(signalnum)

    return raise_signal


def _kill(real):
    @functools.wraps(real)
    def kill(pid, signalnum):
        if pid == os.getpid() and signalnum in _own():
            signal.raise_signal(signalnum)
        else:
            real(pid, signalnum)

    return kill


def _refuse_timer(name, real):
    @functools.wraps(real)
    def timer(*args):
        seconds = args[1] if name == "signal.setitimer" else args[0]
        if seconds and threads.running_rank() is not None:
            raise NotImplementedError(
                f"{name} in a rank on simulated GPUs: it counts real seconds, and its signal would "
                "end the process that all ranks share; leave it out, or use time limits of "
                "torch.distributed"
            )
        return real(*args)

    return timer


def replacements() -> dict:
    """Return the replacements while ranks run."""
    return {
        "signal:signal": _set(signal.signal),
        "signal:getsignal": _get(signal.getsignal),
        "signal:raise_signal": _raise(signal.raise_signal),
        "os:kill": _kill(os.kill),
        **{n: _refuse_timer(n.replace(":", "."), find(n)) for n in _TIMERS if exists(n)},
    }
