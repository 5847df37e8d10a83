"""Each rank's own modules: what it imports is in `sys.modules` while it runs.

Note [Own modules] of `simgpu.ranks` explains why; ``shared_modules.py`` has the rule.
"""

import importlib
import sys
import threading
from operator import is_

from simgpu.ranks.process.own_values import OwnValues
from simgpu.ranks.process.shared_modules import callers_own, is_installed, is_shared

_PROGRAM = "__main__", "__mp_main__"  # saved with the program's arguments
_ABSENT = object()


class OwnModules:
    """The modules that are the same for all ranks, and those of the rank that runs.

    Created by the process that starts the ranks; what it has imported before is common to all.
    """

    def __init__(self):
        self._caller = ModulesOfRank(self)
        self._running = self._caller
        self._ranks = []
        self._common = {}  # what the caller had imported, and what all ranks share
        self._top_levels = {}  # of the caller's modules, and whether ranks have own values there
        self._values = None  # in the caller's modules
        self._equal_names = {}  # equal sets of names are one object, so that comparing is fast

    def of_rank(self) -> "ModulesOfRank":
        """Return the modules of a new rank: none yet."""
        self._ranks.append(ModulesOfRank(self))
        return self._ranks[-1]

    def keep(self, result):
        """Return the result of a rank as it is now, whatever the caller's values are."""
        return self._values.keep(result)

    def leave(self) -> None:
        """Return to the modules of the caller."""
        self.switch_to(self._caller)

    def switch_to(self, rank) -> None:
        """Put the modules of a rank in place of those of the one before."""
        before = self._running
        if before is rank:
            return
        if before is self._caller:
            self._begin()
        else:
            self._note(before)
            self._values.leave(before.values)
        if before.names is not rank.names:
            for name in before.names - rank.names:
                _put(name, self._common.get(name, _ABSENT))
        sys.modules.update(rank.own)
        for name in rank.removed:
            sys.modules.pop(name, None)
        _exchange_locks(before, rank)
        if rank is not self._caller:
            self._values.enter(rank.values)
        self._running = rank
        rank.count, rank.last = len(sys.modules), next(reversed(sys.modules))

    def _begin(self):
        """Note what the caller has, before the first rank runs."""
        self._common = {n: m for n, m in sys.modules.copy().items() if n not in _PROGRAM}
        own = callers_own(self._common)
        self._top_levels = dict.fromkeys(map(_top_level, self._common), False)
        self._top_levels |= dict.fromkeys((_top_level(module.__name__) for module in own), True)
        program = sys.modules["__main__"]
        spec = getattr(program, "__spec__", None)
        name = "__main__" if spec is None else spec.name
        is_own = not is_installed(program) and not is_shared(name, program)
        self._values = OwnValues(own, program if is_own else None)
        for rank in self._ranks:
            rank.values = self._values.of_rank()

    def _is_common(self, name, module):
        """Return whether a module that a rank has imported is common to all ranks."""
        return not self._top_levels.get(_top_level(name), True) or is_shared(name, module)

    def _note(self, rank):
        """Note which modules a rank has imported, replaced and removed since it began to run."""
        if rank.is_unchanged():
            return
        own, common = {}, self._common
        for name, module in sys.modules.copy().items():
            if common.get(name, _ABSENT) is module or name in _PROGRAM:
                continue
            if name not in common and self._is_common(name, module):
                common[name] = module
            else:
                own[name] = module
        rank.own, rank.removed = own, common.keys() - sys.modules.keys()
        names = frozenset(own).union(rank.removed)
        rank.names = self._equal_names.setdefault(names, names)


class ModulesOfRank:
    """What one rank has in `sys.modules` that the others have not."""

    def __init__(self, modules):
        self._modules = modules
        self.own, self.removed, self.names = {}, (), frozenset()
        self.locks = {}
        self.values = {}  # in the modules of the caller
        self.count = self.last = None

    def restore(self):
        """Put them in `sys.modules`, in place of those of the rank before."""
        self._modules.switch_to(self)

    def is_unchanged(self) -> bool:
        """Return whether `sys.modules` is as it was when the rank began to run."""
        return (
            len(sys.modules) == self.count
            and next(reversed(sys.modules)) == self.last
            and all(map(is_, map(sys.modules.get, self.own), self.own.values()))
        )


def _top_level(name):
    return name.partition(".")[0]


def _put(name, module):
    if module is _ABSENT:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = module


def _exchange_locks(before, rank):
    """Put aside the locks of modules that a rank is just importing; others import their own.

    Python locks names, so a rank would wait for another that stands in the middle of a module.
    """
    locks, thread = importlib._bootstrap._module_locks, threading.get_ident()
    if locks:
        held = {name: ref for name, ref in locks.items() if getattr(ref(), "owner", 0) == thread}
        for name in held:
            del locks[name]
        before.locks = held
    if rank.locks:
        locks.update(rank.locks)
        rank.locks = {}
