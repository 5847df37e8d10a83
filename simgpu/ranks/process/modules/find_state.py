"""Find the state that some modules keep: their classes, instances of those, and containers."""

import sys
import types

from simgpu.ranks.process.modules.snapshots import CONTAINERS


def find_state(modules) -> tuple[list, list]:
    """Return the modules and their classes, and the containers that can be reached from them.

    Containers are lists, dictionaries, sets, and the attributes of instances of those classes.
    They are looked for among the values of globals, attributes of classes, defaults and closures
    of functions, and in each other.
    """
    names = {module.__name__ for module in modules}
    owners, containers, left = [], [], [*modules]
    # Exchanged elsewhere, and the names of modules, such as `__builtins__`.
    seen = {id(sys.modules), id(sys.path), *(id(vars(m)) for m in _all_modules())}
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        if _is_of(names, value):
            owners.append(value)
            left += vars(value).values()
        elif kind in CONTAINERS:
            containers.append(value)
            left += value.values() if isinstance(value, dict) else value
        elif kind is tuple:
            left += value
        elif kind is types.FunctionType and value.__module__ in names:
            left += _kept_by(value)
        elif kind in (staticmethod, classmethod):
            left.append(value.__func__)
        elif kind.__module__ in names and kind.__dictoffset__:
            left.append(object.__getattribute__(value, "__dict__"))
    return owners, containers


def is_class(value) -> bool:
    """Return whether a value is a class; `isinstance` would ask deprecated names to load."""
    return issubclass(type(value), type)


def _all_modules():
    return [m for m in sys.modules.copy().values() if isinstance(m, types.ModuleType)]


def _is_of(names, value):
    """Return whether a value is one of some modules, or one of their classes."""
    if type(value) is types.ModuleType:
        return value.__name__ in names
    return is_class(value) and value.__module__ in names


def _kept_by(function):
    """Return the values that a function keeps."""
    found = [*vars(function).values(), *(function.__defaults__ or ())]
    found += (function.__kwdefaults__ or {}).values()
    return found + [cell.cell_contents for cell in function.__closure__ or () if _is_set(cell)]


def _is_set(cell):
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
