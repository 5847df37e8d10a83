"""Each rank's own modules: what it imports is in `sys.modules` while it runs.

Note [Own modules] of `simgpu.ranks` explains why; ``shared_modules.py`` has the rule.
"""

import importlib
import os
import sys
import threading
from operator import is_

from simgpu.ranks.process.modules.own_values import OwnValues
from simgpu.ranks.process.modules.patched_names import NOT_THERE, PatchedNames
from simgpu.ranks.process.modules.shared_modules import callers_own, is_installed, is_shared
from simgpu.ranks.process.scheduler import RanksError

_PROGRAM = "__main__", "__mp_main__"  # saved with the program's arguments
_ABSENT = object()


class OwnModules:
    """The modules that are the same for all ranks, and those of the rank that runs.

    A context manager around the run of the ranks, which returns to the modules of the caller. What
    the caller has imported before is common to all.
    """

    def __init__(self):
        self._caller = ModulesOfRank(self)
        self._running = self._caller
        self._ranks, self._present = [], frozenset()
        self._common = {}  # what the caller had imported, and what all ranks share
        self._top_levels = {}  # of the caller's modules, and whether ranks have own values there
        self._values = None  # in the caller's modules
        self._patches = None  # in modules that ranks share, if they are watched
        self._callers_own = {}
        self._equal_names = {}  # equal sets of names are one object, so that comparing is fast

    def of_rank(self) -> "ModulesOfRank":
        """Return the modules of a new rank: none yet."""
        self._ranks.append(ModulesOfRank(self))
        return self._ranks[-1]

    def keep(self, result):
        """Return the result of a rank that ends as it is now, whatever the caller's values are.

        Raises
        ------
        RanksError
            If a rank has assigned to a name of a shared module too late for the others to keep
            their own value.
        """
        rank = self._running
        if rank.has_left and self._is_watched(rank) and len(self._ranks) > 1:
            self._patches.add_suspects(lambda: self._own_of(rank))
            found = self._patches.find(self._own_of(rank), is_late=True)
            self._patches.undo(found)
            for (owner, name), (before, value) in found.items():
                number = os.environ.get("RANK", self._ranks.index(rank))
                raise RanksError(_describe_conflict(owner, name, before, value, number))
        return self._values.keep(result)

    def _is_watched(self, rank):
        return self._patches is not None and rank is not self._caller

    def _own_of(self, rank):
        return {**self._callers_own, **rank.own, "__main__": sys.modules["__main__"]}

    def _leave_patches(self, rank):
        """Return to the caller's values of the names that the rank has assigned to."""
        if self._patches is None:
            return
        if self._is_watched(rank):
            if rank.has_new or not rank.has_left:
                own = self._own_of(rank)
                self._patches.add(self._patches.find(own))
                self._patches.suspect(own)
            self._patches.add_suspects(lambda: self._own_of(rank))
        rank.patches, rank.has_left, rank.has_new = self._patches.leave(), True, False

    def watch(self) -> None:
        """From now on, find what ranks assign to names of the modules that they share.

        The first to call is the first to run, so that all has its first value.
        """
        if self._patches is None:
            self._patches = PatchedNames(self._common)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.enter(self._caller)

    def leave(self) -> None:
        """Put aside what the running rank has."""
        rank, self._running = self._running, None
        if rank is None:
            return
        if rank is self._caller:
            self._begin()
            return
        self._record(rank)
        self._present = rank.names  # mostly those of the next rank, too
        self._leave_patches(rank)
        self._values.leave(rank.values)
        _put_locks_aside(rank)

    def enter(self, rank) -> None:
        """Put what a rank has in place."""
        self.leave()
        if self._present is not rank.names:
            for name in self._present - rank.names:
                _put(name, self._common.get(name, _ABSENT))
        sys.modules.update(rank.own)
        for name in rank.removed:
            sys.modules.pop(name, None)
        if rank is not self._caller:
            self._values.enter(rank.values)
            if self._patches is not None:
                self._patches.enter(rank.patches)
        if rank.locks:
            importlib._bootstrap._module_locks.update(rank.locks)
            rank.locks = {}
        self._running = rank
        rank.count, rank.last = len(sys.modules), next(reversed(sys.modules))

    def _begin(self):
        """Record what the caller has, before the first rank runs."""
        self._common = {n: m for n, m in sys.modules.copy().items() if n not in _PROGRAM}
        own = callers_own(self._common)
        self._callers_own = {module.__name__: module for module in own}
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

    def _record(self, rank):
        """Record which modules a rank has imported, replaced and removed since it began to run."""
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
        rank.has_new = True
        names = frozenset(own).union(rank.removed)
        rank.names = self._equal_names.setdefault(names, names)


class ModulesOfRank:
    """What one rank has in `sys.modules` that the others have not."""

    def __init__(self, modules):
        self._modules = modules
        self.own, self.removed, self.names = {}, (), frozenset()
        self.locks = {}
        self.values = {}  # in the modules of the caller
        self.patches = {}  # values of names of shared modules
        self.has_left = self.has_new = False
        self.count = self.last = None

    def save(self):
        """Put them aside."""
        self._modules.leave()

    def restore(self):
        """Put them in `sys.modules`."""
        self._modules.enter(self)

    def watch(self):
        """Find what ranks assign to names of shared modules, from now on."""
        self._modules.watch()

    def is_unchanged(self) -> bool:
        """Return whether `sys.modules` is as it was when the rank began to run."""
        return (
            len(sys.modules) == self.count
            and next(reversed(sys.modules)) == self.last
            and all(map(is_, map(sys.modules.get, self.own), self.own.values()))
        )


def _top_level(name):
    return name.partition(".")[0]


def _describe_conflict(owner, name, before, value, rank):
    module = owner.__name__ if not isinstance(owner, type) else owner.__module__
    where = f"{module}." if owner.__name__ == module else f"{module}.{owner.__qualname__}."
    others = "have no such name" if before is NOT_THERE else f"have {before!r}"
    return (
        f"rank {rank} has assigned {value!r} to {where}{name}, where other ranks {others}. Ranks "
        f"share the module {module}: assign to its names before the first communication, while "
        "modules are imported; then each rank has its own value"
    )


def _put(name, module):
    if module is _ABSENT:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = module


def _put_locks_aside(rank):
    """Put aside the locks of modules that a rank is just importing; others import their own.

    Python locks names, so a rank would wait for another that stands in the middle of a module.
    """
    locks, thread = importlib._bootstrap._module_locks, threading.get_ident()
    if locks:
        rank.locks = {n: ref for n, ref in locks.items() if getattr(ref(), "owner", 0) == thread}
        for name in rank.locks:
            del locks[name]
