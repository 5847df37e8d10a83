"""Preserve the state of the process that calls `spawn`."""

import gc
import sys
from contextlib import contextmanager

from simgpu.clock.current import state
from simgpu.ranks.process.rank_local_state import RankLocalState

_left_in_use: list = []  # the machine of the last `spawn`, if there was none before


@contextmanager
def preserved_process(machine):
    """Use `machine` while ranks run, then restore the caller's machine and process state.

    When Python's cyclic garbage collector runs depends on the history of the process. It is
    disabled meanwhile, so that peak memory does not; it still runs when memory runs out.
    """
    process = RankLocalState()
    process.save()
    gc_enabled, hook, seed = gc.isenabled(), sys.excepthook, state.seed
    gc.disable()
    previous = _set_aside(machine)
    state.machine = machine
    try:
        yield
    finally:
        if gc_enabled:
            gc.enable()
        process.restore()
        sys.excepthook, state.seed = hook, seed
        _restore(previous, machine)


def _set_aside(machine):
    """Set the current machine aside; return it, or None if the caller has configured none."""
    previous = state.machine
    if previous in _left_in_use:
        previous.alive, previous = False, None
    if previous is not None:
        previous.reset()
        previous.alive, previous.set_aside = False, True
        machine.trace = previous.trace
    return previous


def _restore(previous, machine):
    if previous is None:
        _left_in_use[:] = [machine]
    else:
        previous.host, machine.alive = machine.host, False
        previous.alive, previous.set_aside = True, False
        state.machine = previous
