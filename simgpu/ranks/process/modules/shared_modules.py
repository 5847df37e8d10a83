"""The rule: which modules all ranks share, and of which each rank has its own.

Note [Own modules] of `simgpu.ranks` has the reasons.
"""

import functools
import importlib.metadata
import os
import re
import site
import sys
import sysconfig
from importlib import machinery
from pathlib import Path
from types import ModuleType

import torch

# Distributions in Python alone that cannot be imported twice in a process, and why not.
_ONCE = {"datasets": "registers its types with pyarrow, which takes a name once"}
_OURS = __name__.partition(".")[0]
_LOADED_ONCE = machinery.ExtensionFileLoader, machinery.BuiltinImporter, machinery.FrozenImporter
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_SITES = tuple(
    {
        sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages(),
        *site.getsitepackages(),
    }
)  # fmt: skip

_places: dict = {}  # name of a module -> its spec, and what `_place` returns
_ALWAYS_SHARED = sys.stdlib_module_names | {_OURS, "torch", "numpy"}


def is_shared(name: str, module) -> bool:
    """Return whether all ranks share a module.

    They share, and nothing else,

    1. Python's standard library, PyTorch, NumPy, this package, and what those require;
    2. modules in C, which a process can load only once;
    3. installed distributions with parts in C, and what those require: their C code holds on to
       objects of Python code, of which there must be one. A distribution that requires PyTorch is
       shared only if it has a library of operators for PyTorch, as torchvision does; else only its
       modules in C are;
    4. distributions in Python alone that cannot be imported twice in a process: `_ONCE`.
    """
    spec = getattr(module, "__spec__", None)
    loader = getattr(spec, "loader", None)
    if isinstance(loader, _LOADED_ONCE) or loader in _LOADED_ONCE:
        return True
    top = name.partition(".")[0]
    if top in _ALWAYS_SHARED:
        return True
    if is_installed(module):
        return top in _shared_packages()
    return _path_of(module).startswith(_STANDARD)


def is_installed(module) -> bool:
    """Return whether a module is in a folder for installed packages, and so not the user's own."""
    where = _path_of(module)
    return where.startswith(_SITES) or f"-packages{os.sep}" in where  # of another Python's, too


def _path_of(module):
    spec = getattr(module, "__spec__", None)
    where = getattr(spec, "origin", None) or getattr(module, "__file__", None)
    if where is None:  # a namespace package
        where = _folder(getattr(spec, "submodule_search_locations", None))
    return str(where)


def _folder(locations):
    """Return the first folder of a namespace package."""
    try:
        return next(iter(locations or ()), "")
    except KeyError:  # it asks for the package around it, which is not imported any longer
        return ""


def callers_own(modules) -> list:
    """Return those of the caller's modules that are not shared.

    Of the installed packages these are the ones that use PyTorch: others keep no state of ranks,
    but some are at work while ranks run, such as the parts of Jupyter.
    """
    user, installed = [], {}
    for name, module in modules.items():
        top = name.partition(".")[0]
        if top in _ALWAYS_SHARED:  # most of them: asking no more saves time in each run
            continue
        if type(module) is not ModuleType or module.__name__ != name or module.__spec__ is None:
            continue
        is_in_package, shared = _place(name, module)
        if is_in_package:
            all_, own = installed.setdefault(top, ([], []))
            all_.append(module)
            if not shared:
                own.append(module)
        elif not shared:
            user.append(module)
    of_packages = [own for all_, own in installed.values() if own and any(map(_uses_torch, all_))]
    return user + [module for own in of_packages for module in own]


def _place(name, module):
    """Return whether a module is installed, and whether it is shared; found once an import."""
    spec = module.__spec__
    known = _places.get(name)
    if known is None or known[0] is not spec:
        known = _places[name] = spec, is_installed(module), is_shared(name, module)
    return known[1:]


def _uses_torch(module):
    names = vars(module)
    return names.get("torch") is torch or any(value is torch for value in names.values())


@functools.cache
def _shared_packages():
    """Return the top-level names of the installed packages that are shared."""
    found = _distributions()
    left = {"torch", "numpy", *_ONCE} | {key for key, one in found.items() if one.cannot_be_copied}
    shared = set()
    while left:
        key = left.pop()
        shared.add(key)
        if key in found:
            needed = {need for need in found[key].requires - shared if need in found}
            left |= {need for need in needed if not found[need].uses_torch}
    return {top for key in shared & found.keys() for top in found[key].packages}


class _Distribution:
    """What the files of an installed distribution say about it."""

    def __init__(self, record, metadata):
        self.packages = set(re.findall(r"^([\w-]+?)(?:\.\w[\w.-]*)?[/,]", record, re.MULTILINE))
        header = metadata.partition("\n\n")[0]
        lines = re.findall(r"^Requires-Dist: *([\w.-]+)(.*)$", header, re.MULTILINE)
        self.requires = {_key(name) for name, rest in lines if "extra ==" not in rest}
        self.uses_torch = "torch" in {name for name, _ in lines}  # be it for an extra
        compiled = re.findall(r"^(?:.*/)?([^/,]+\.(?:so|pyd|dylib))[,\r]", record, re.MULTILINE)
        operators = [name for name in compiled if len(Path(name).suffixes) == 1]
        self.cannot_be_copied = bool(operators if self.uses_torch else compiled)


def _distributions():
    """Return all installed distributions by their names; `importlib.metadata` parses slowly."""
    found = {}
    for one in importlib.metadata.distributions():
        metadata = one.read_text("METADATA") or one.read_text("PKG-INFO") or ""
        name = re.search(r"^Name: *(.+?)\s*$", metadata, re.MULTILINE)
        if name is not None:
            found.setdefault(_key(name[1]), _Distribution(one.read_text("RECORD") or "", metadata))
    return found


def _key(name):
    """Return the normal form of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()
