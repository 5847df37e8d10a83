"""Each rank's own values in modules that the caller had imported before there were ranks.

The caller's functions refer to these modules, so ranks cannot import them anew. Instead globals,
attributes of classes, and what lists, dictionaries and sets hold, are put back when a rank stops
running, and set again before it resumes: Note [Own modules] of `simgpu.ranks`.
"""

import copy
from itertools import chain
from operator import is_

from simgpu.ranks.process.modules.places import CONTAINERS, Content, Names
from simgpu.ranks.process.modules.reachable import reachable


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
        owners, containers = reachable(modules)
        self._containers = {id(container) for container in containers}
        if program is not None:
            classes = [
                value
                for value in vars(program).values()
                if issubclass(type(value), type) and value.__module__ == program.__name__
            ]
            owners += [program, *classes]
        self._places = [*map(Names, owners), *map(Content, containers)]
        self._changed = []  # places that a rank has changed: compared one by one
        self._note_first_values()

    def of_rank(self) -> dict:
        """Return a new rank's values, by their places: those of the caller, and empty caches."""
        new = {}
        found = {place: place.with_empty_caches(new) for place in self._places}
        return {place: values for place, values in found.items() if values}

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
        """Note the values of the rank that has run, and return to the caller's."""
        if not self._is_unchanged():
            self._changed += [place for place in self._same if place.get()]
            self._note_first_values()
        for place in self._changed:
            if found := place.get():
                values[place] = found
                place.reset(found)

    def enter(self, values) -> None:
        """Set the values of a rank that `leave` has noted, in place of the caller's."""
        for place, found in values.items():
            place.set(found)
            if place not in self._changed:
                self._changed.append(place)
        values.clear()  # what the rank replaces while it runs must not be kept alive here

    def _note_first_values(self):
        """Note what is in the places that no rank has changed, to compare them all at once."""
        changed = set(self._changed)
        self._same = [place for place in self._places if place not in changed]
        self._views = [view for place in self._same for view in place.views]
        self._lengths = [place.length() for place in self._same]
        self._first = (*chain.from_iterable(self._views),)

    def _is_unchanged(self):
        return [place.length() for place in self._same] == self._lengths and all(
            map(is_, chain.from_iterable(self._views), self._first)
        )
