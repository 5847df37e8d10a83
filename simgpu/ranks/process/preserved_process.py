"""The process that calls `spawn`: it is given back as it was."""

import gc
import sys
from contextlib import contextmanager

from simgpu.clock.current import state
from simgpu.ranks.process.rank_local_state import RankLocalState

_left_in_use: list = []  # the machine of the last `spawn`, if there was none before


@contextmanager
def preserved_process(machine):
    """Put `machine` in place of the caller's while ranks run, and restore the caller's state.

    Python looks for cycles of dropped objects at moments that depend on all that the process has
    done. So that peaks of memory do not, it looks for none meanwhile, unless memory runs out.
    """
    process = RankLocalState()
    process.save()
    collects, hook, seed = gc.isenabled(), sys.excepthook, state.seed
    gc.disable()
    former = _set_aside(machine)
    state.machine = machine
    try:
        yield
    finally:
        if collects:
            gc.enable()
        process.restore()
        sys.excepthook, state.seed = hook, seed
        _bring_back(former, machine)


def _set_aside(machine):
    """Set the machine in use aside; return it, or None if nobody has configured one."""
    former = state.machine
    if former in _left_in_use:
        former.alive, former = False, None
    if former is not None:
        former.reset()
        former.alive, former.set_aside = False, True
        machine.trace = former.trace
    return former


def _bring_back(former, machine):
    if former is None:
        _left_in_use[:] = [machine]
    else:
        former.host, machine.alive = machine.host, False
        former.alive, former.set_aside = True, False
        state.machine = former
