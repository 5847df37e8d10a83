"""Each rank's own values in modules that the caller had imported before there were ranks.

The caller's functions refer to these modules, so ranks cannot import them again. Instead globals,
attributes of classes, and what lists, dictionaries and sets hold, are put back when a rank stops
running, and set again before it resumes: Note [Own modules] of `simgpu.ranks`.
"""

import copy
from itertools import chain
from operator import is_

from simgpu.ranks.process.modules.find_state import find_state, is_class
from simgpu.ranks.process.modules.snapshots import (
    CONTAINERS,
    ContainerSnapshot,
    NamespaceSnapshot,
)


class OwnValues:
    """What is the rank's own in some modules.

    Parameters
    ----------
    modules : list of module
        The modules.
    program : module, optional
        The caller's ``__main__``: globals and attributes of classes are each rank's own, but not
        what its lists and the like hold, for a notebook to collect something from its ranks.
    """

    def __init__(self, modules, program=None):
        owners, containers = find_state(modules)
        self._containers = {id(container) for container in containers}
        if program is not None:
            classes = [
                value
                for value in vars(program).values()
                if is_class(value) and value.__module__ == program.__name__
            ]
            owners += [program, *classes]
        self._snapshots = [
            *map(NamespaceSnapshot, owners),
            *map(ContainerSnapshot, containers),
        ]
        self._changed = []  # those in which a rank has changed something: compared one by one
        self._record_first_values()

    def of_rank(self) -> dict:
        """Return a new rank's values, by snapshot: those of the caller, and empty caches."""
        new = {}
        found = {snapshot: snapshot.with_empty_caches(new) for snapshot in self._snapshots}
        return {snapshot: values for snapshot, values in found.items() if values}

    def keep(self, result):
        """Return a rank's result, with copies of the containers that do not stay the rank's own."""
        kind = type(result)
        if not self._containers or kind not in (tuple, *CONTAINERS):
            return result
        parts = [*result.values()] if isinstance(result, dict) else [*result]
        kept = [self.keep(part) for part in parts]
        if id(result) not in self._containers and all(map(is_, kept, parts)):
            return result
        if not isinstance(result, dict):
            return kind(kept)
        new = copy.copy(result)
        new.update(zip(result, kept, strict=True))
        return new

    def leave(self, values) -> None:
        """Record the values of the rank that has run, and return to the caller's."""
        if not self._is_unchanged():
            self._changed += [snapshot for snapshot in self._same if snapshot.get()]
            self._record_first_values()
        for snapshot in self._changed:
            if found := snapshot.get():
                values[snapshot] = found
                snapshot.reset(found)

    def enter(self, values) -> None:
        """Set the values of a rank that `leave` has recorded, in place of the caller's."""
        for snapshot, found in values.items():
            snapshot.set(found)
            if snapshot not in self._changed:
                self._changed.append(snapshot)
        values.clear()  # what the rank replaces while it runs must not be kept alive here

    def _record_first_values(self):
        """Record the values that no rank has changed, to compare them all at once."""
        changed = set(self._changed)
        self._same = [snapshot for snapshot in self._snapshots if snapshot not in changed]
        self._views = [view for snapshot in self._same for view in snapshot.views]
        self._live = [snapshot.live for snapshot in self._same]
        self._lengths = [*map(len, self._live)]
        self._first = (*chain.from_iterable(self._views),)

    def _is_unchanged(self):
        return [*map(len, self._live)] == self._lengths and all(
            map(is_, chain.from_iterable(self._views), self._first)
        )
