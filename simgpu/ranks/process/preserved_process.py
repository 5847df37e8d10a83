"""The caller of `spawn`: its process is given back as it was."""

import gc
import sys

from simgpu.clock.current import state
from simgpu.ranks.process.rank_local_state import OwnState, of_process

_machines: list = []  # the one that the last `spawn` has left in use


class Caller:
    """Keeps what is the caller's while ranks run, and gives it back.

    Python looks for cycles of dropped objects at moments that depend on all that the process has
    done. So that peaks of memory do not, it looks for none meanwhile, unless memory runs out.
    """

    def __init__(self, machine):
        self._machine = machine

    def __enter__(self):
        self._state = OwnState(*of_process())
        self._state.keep()
        self._collects = gc.isenabled()
        gc.disable()
        self._hook = sys.excepthook
        self._seed, self._former = state.seed, state.machine
        if self._former in _machines:
            self._former.alive, self._former = False, None
        if self._former is not None:
            self._former.reset()
            self._former.alive, self._former.set_aside = False, True
            self._machine.trace = self._former.trace
        state.machine = self._machine

    def __exit__(self, *_):
        if self._collects:
            gc.enable()
        self._state.restore()
        sys.excepthook, state.seed = self._hook, self._seed
        if self._former is None:
            _machines[:] = [self._machine]
        else:
            self._former.host, self._machine.alive = self._machine.host, False
            self._former.alive, self._former.set_aside = True, False
            state.machine = self._former
