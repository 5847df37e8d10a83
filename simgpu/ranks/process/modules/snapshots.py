"""The caller's values in a namespace or a container: they show what a rank has changed there."""

import functools
from collections import Counter, OrderedDict, defaultdict, deque

DICTS = dict, OrderedDict, defaultdict, Counter
CONTAINERS = *DICTS, list, set, deque
_MANY = 10_000  # entries; of a larger container, only changes of its length are seen
_ABSENT = object()


class NamespaceSnapshot:
    """The names in a module or a class, with the caller's values.

    Attributes
    ----------
    live : sized
        What `len` tells the number of names of now.
    views : list of iterable
        What is to be compared with the caller's, object by object.
    """

    def __init__(self, owner):
        self._owner, self.live = owner, vars(owner)
        self._first = dict(self.live)
        self.views = [self.live.values()]

    def get(self) -> dict:
        """Return the values that differ from the caller's."""
        first, now = self._first, self.live
        found = {k: v for k, v in now.items() if first.get(k, _ABSENT) is not v}
        if len(now) != len(first) or found:
            found.update(dict.fromkeys(first.keys() - now.keys(), _ABSENT))
        return found

    def set(self, values) -> None:
        """Set values that `get` has returned, in place of the caller's."""
        for name, value in values.items():
            self._set(name, value)

    def reset(self, values) -> None:
        """Set the caller's values again."""
        for name in values:
            self._set(name, self._first.get(name, _ABSENT))

    def _set(self, name, value):
        if not isinstance(self._owner, type):
            if value is _ABSENT:
                self.live.pop(name, None)
            else:
                self.live[name] = value
        elif value is not _ABSENT:
            type.__setattr__(self._owner, name, value)
        elif name in self.live:
            type.__delattr__(self._owner, name)

    def with_empty_caches(self, new) -> dict:
        """Return the cached functions among the values, each with an empty cache.

        Those that are in `new` already, by the original's identity, are taken from there.
        """
        found = {}
        for name, value in self._first.items():
            if isinstance(value, functools._lru_cache_wrapper):
                if id(value) not in new:
                    new[id(value)] = _with_empty_cache(value)
                found[name] = new[id(value)]
        return found


class ContainerSnapshot:
    """What a container held for the caller; `live` and `views` as in `NamespaceSnapshot`."""

    def __init__(self, container):
        self.live = container
        self._first = self._copy()
        self.views = [] if len(container) > _MANY else [container]
        if self.views and isinstance(container, dict):
            self.views.append(container.values())

    def get(self):
        """Return a copy of what it holds if that differs from what it held for the caller."""
        is_equal = len(self.live) == len(self._first) and (
            not self.views or _equal(self.live, self._first)
        )
        return None if is_equal else (self._copy(),)

    def set(self, values) -> None:
        """Restore what `get` has returned."""
        self._fill(values[0])

    def reset(self, values) -> None:
        """Restore what it held for the caller."""
        self._fill(self._first)

    def with_empty_caches(self, new) -> None:
        """Return nothing: caches of functions are found among the names."""

    def _copy(self):
        return (dict if isinstance(self.live, dict) else list)(self.live)

    def _fill(self, values):
        container = self.live
        container.clear()
        if isinstance(container, dict):
            dict.update(container, values)
        elif isinstance(container, set):
            container.update(values)
        else:
            container.extend(values)


def _equal(container, first):
    """Return whether two containers of equal lengths hold the same objects."""
    if isinstance(container, dict):
        return all(a is b for a, b in zip(container.values(), first.values(), strict=True)) and all(
            a is b for a, b in zip(container, first, strict=True)
        )
    return all(a is b for a, b in zip(container, first, strict=True))


def _with_empty_cache(function):
    new = functools.lru_cache(**function.cache_parameters())(function.__wrapped__)
    vars(new).update(vars(function))
    return new
