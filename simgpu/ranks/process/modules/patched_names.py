"""What programs assign to names of modules and classes that ranks share.

A library that replaces a function of PyTorch by one of its own does so in every rank, and each has
its own copy of the library. So each rank has its own value of such a name: Note [Own modules] of
`simgpu.ranks`.
"""

import builtins
import functools
import gc
import sys
from itertools import chain, repeat
from operator import is_
from types import FunctionType, ModuleType

from simgpu.ranks.process import python_settings, torch_internals
from simgpu.ranks.process.modules.find_state import is_class
from simgpu.ranks.process.modules.shared_modules import is_installed
from simgpu.ranks.process.modules.stored_names import stored_names

NOT_THERE = object()
_ELSEWHERE = {"sys", "builtins", "warnings", "logging", "os"}  # in ``rank_local_state.py``
_KEPT = {"sys": {"argv", "path", "modules"}, "os": {"environ"}, "warnings": {"filters"}}
for _module, _name in python_settings.REPLACED:
    _KEPT.setdefault(_module.__name__, set()).add(_name)
_TOP_LEVELS = sys.stdlib_module_names | {"torch", "numpy"}


class PatchedNames:
    """The names of shared modules and classes that ranks have assigned to.

    Parameters
    ----------
    modules : dict
        The caller's modules by name; of those, the public ones of Python and PyTorch count.
    """

    def __init__(self, modules):
        self._modules = {}  # the module of each owner of names: a module, or a class
        for name, module in modules.items():
            if type(module) is ModuleType and _may_be_patched(name):
                self._modules[module] = module
                classes = [value for value in vars(module).values() if is_class(value)]
                self._modules |= {kind: module for kind in classes if kind.__module__ == name}
        self._first = {
            owner: ((*vars(owner),), (*vars(owner).values(),)) for owner in self._modules
        }
        self._kept = {(owner, name) for owner, name, _ in torch_internals.owners()}
        self._stored_names = {}  # by the name and the file of a module, of which ranks have copies
        self._elsewhere = {modules[name]: {**vars(modules[name])} for name in _ELSEWHERE}
        self._searched, self._suspected = set(), set()  # modules, and names that they assign to
        self._suspects = {}  # (owner, name): the first value, as long as no rank has changed it
        self._watched = [], ()  # for each of them, the dictionary of its owner, and the name
        self.names = {}  # (owner, name): the caller's value

    def find(self, own, is_late=False) -> dict:
        """Return the names that a program has assigned to: what they were, and what they are.

        Values count that come from a module in `own`, and plain ones if `own` modules assign to
        such a name. What a shared module changes itself, such as a counter, belongs to the process
        that all ranks share.

        Parameters
        ----------
        own : dict
            The modules, by name, of which ranks have their own copies.
        is_late : bool
            If True, plain values do not count if the shared module assigns to such a name as well.
        """
        found = {}
        for owner, (names, values) in self._first.items():
            now = vars(owner)
            if len(now) == len(names) and all(map(is_, now.values(), values)):
                continue
            first = dict(zip(names, values, strict=True))
            for name, value in now.items():
                before = first.get(name, NOT_THERE)
                if before is value or (owner, name) in self._kept or (owner, name) in self.names:
                    continue
                if _home(value) in own or (
                    _is_plain(value) and self._is_set(own, owner, name, is_late)
                ):
                    found[owner, name] = before, value
        return found

    def suspect(self, own) -> None:
        """From now on, watch the names to which the user's code in `own` modules assigns."""
        new = set()
        for module in own.values():
            if (key := _key(module)) not in self._searched:
                self._searched.add(key)
                new |= set() if is_installed(module) else self._stored(module)
        new -= self._suspected
        self._suspected |= new
        for owner, first in self._first_by_owner() if new else ():
            there = new if owner is builtins else new.intersection(_names_in(owner))
            for name in there - _KEPT.get(owner.__name__, set()):
                if (owner, name) not in self._kept:
                    self._suspects[owner, name] = first.get(name, NOT_THERE)
        self._watch()

    def _first_by_owner(self):
        yield from self._elsewhere.items()
        for owner, (names, values) in self._first.items():
            yield owner, dict(zip(names, values, strict=True))

    def add_suspects(self, own_of) -> None:
        """Give each rank its own values of the watched names to which the running one has assigned.

        This takes microseconds, so it may be done whenever a rank waits.

        Parameters
        ----------
        own_of : callable
            Returns what `find` calls `own`.
        """
        now = [*map(dict.get, *self._watched, repeat(NOT_THERE))]
        if all(map(is_, now, self._suspects.values())):
            return
        own = own_of()
        for (key, first), value in zip([*self._suspects.items()], now, strict=True):
            if value is not first and self._is_programs(own, *key, value):
                self.names[key] = self._suspects.pop(key)
        self._watch()

    def _watch(self):
        owners, names = zip(*self._suspects, strict=True) if self._suspects else ((), ())
        self._watched = [*map(_dict_of, owners)], names

    def _is_programs(self, own, owner, name, value):
        return _home(value) in own or name not in self._stored(self._modules.get(owner, owner))

    def _is_set(self, own, owner, name, is_late):
        if is_late and name in self._stored(self._modules[owner]):
            return False
        return any(name in self._stored(module) for module in own.values())

    def _stored(self, module):
        """Return the names of globals and attributes to which the code of a module assigns."""
        key = _key(module)
        if key not in self._stored_names:
            self._stored_names[key] = stored_names(module)
        return self._stored_names[key]

    def add(self, found) -> None:
        """Give each rank its own values of the names that `find` has returned."""
        self.names |= {key: before for key, (before, _) in found.items()}

    def undo(self, found) -> None:
        """Restore what `find` has returned."""
        for (owner, name), (before, _) in found.items():
            _assign(owner, name, before)

    def leave(self) -> dict:
        """Return the values of the rank that has run, and return to the caller's."""
        values = {}
        for (owner, name), first in self.names.items():
            value = vars(owner).get(name, NOT_THERE)
            if value is not first:
                values[owner, name] = value
                _assign(owner, name, first)
        return values

    def enter(self, values) -> None:
        """Set the values of a rank."""
        for (owner, name), value in values.items():
            _assign(owner, name, value)


def _key(module):
    return module.__name__, getattr(module, "__file__", None)


def _names_in(owner):
    """Yield the names in a module, or in a class and those that it inherits from."""
    return chain.from_iterable(map(vars, owner.__mro__ if isinstance(owner, type) else [owner]))


def _dict_of(owner):
    """Return the dictionary of a module or a class, where that is behind a slow proxy."""
    names = vars(owner)
    return names if isinstance(names, dict) else gc.get_referents(names)[0]


def _may_be_patched(name):
    """Return whether a module is public, and of Python or PyTorch."""
    parts = name.split(".")
    is_public = not any(part.startswith("_") for part in parts)
    return is_public and parts[0] in _TOP_LEVELS and name not in _ELSEWHERE


def _assign(owner, name, value):
    if value is not NOT_THERE:
        (type.__setattr__ if isinstance(owner, type) else setattr)(owner, name, value)
    elif name in vars(owner):
        (type.__delattr__ if isinstance(owner, type) else delattr)(owner, name)


def _home(value):
    """Return the name of the module in which a function, a class, or that of an object is."""
    while True:
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, staticmethod | classmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        else:
            break
    if isinstance(value, FunctionType):  # its `__module__` may be that of a function it wraps
        return value.__globals__.get("__name__")
    return (value if isinstance(value, type) else type(value)).__module__


def _is_plain(value):
    return value is None or type(value) in (bool, int, float, str, bytes, tuple)
