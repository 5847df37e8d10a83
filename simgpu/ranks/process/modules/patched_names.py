"""What programs assign to names of modules and classes that ranks share.

A library that replaces a function of PyTorch by one of its own does so in every rank, and each has
its own copy of the library. So each rank has its own value of such a name: Note [Own modules] of
`simgpu.ranks`.
"""

import dis
import functools
import sys
from operator import is_
from types import CodeType, FunctionType, ModuleType

from simgpu.ranks.process import torch_internals
from simgpu.ranks.process.modules.find_state import is_class

NOT_THERE = object()
_ELSEWHERE = {"sys", "builtins", "warnings", "logging", "os"}  # in ``rank_local_state.py``
_TOP_LEVELS = sys.stdlib_module_names | {"torch", "numpy"}
_STORES = {dis.opmap["STORE_GLOBAL"], dis.opmap["STORE_ATTR"]}


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
        self._stored_names = {}
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

    def _is_set(self, own, owner, name, is_late):
        if is_late and name in self._stored(self._modules[owner]):
            return False
        return any(name in self._stored(module) for module in own.values())

    def _stored(self, module):
        """Return the names of globals and attributes to which the code of a module assigns."""
        if module not in self._stored_names:
            self._stored_names[module] = _stored_names(module)
        return self._stored_names[module]

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


def _stored_names(module):
    spec, loader = getattr(module, "__spec__", None), getattr(module, "__loader__", None)
    try:
        if spec is not None:
            left = [spec.loader.get_code(spec.name)]
        else:  # the script
            left = [loader.source_to_code(loader.get_data(module.__file__), module.__file__)]
    except (AttributeError, ImportError, OSError, SyntaxError):
        left = []  # no source, such as a notebook
    found = set()
    while left:
        code = left.pop()
        if code is None:
            continue
        left += [value for value in code.co_consts if isinstance(value, CodeType)]
        found |= {step.argval for step in dis.get_instructions(code) if step.opcode in _STORES}
        if "setattr" in code.co_names:
            found |= {value for value in code.co_consts if isinstance(value, str)}
    return found
