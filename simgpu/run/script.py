"""A script or a module, and how it runs as the program of a process."""

import ast
import os
import random
import sys
import types
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

import numpy as np
import torch

from simgpu.clock import current

_STARTS = {"spawn", "start_processes", "Process"}
_FROM = ("torch.multiprocessing", "multiprocessing")


class Script:
    """A script and its arguments.

    Parameters
    ----------
    target : str
        The file, or the name of a module.
    args : list of str
        The rest of ``sys.argv``.
    is_module : bool
        Whether `target` is a module, as after ``python -m``.

    Attributes
    ----------
    path : str
        The file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If there is no such module.
    """

    def __init__(self, target, args, is_module=False):
        self._spec = _find_module(target) if is_module else None
        self.path = self._spec.origin if is_module else target
        self._args, self._source = list(args), Path(self.path).read_bytes()
        self._code = None

    @property
    def name(self):
        """Its name in messages."""
        return Path(self.path).name

    def compile(self) -> None:
        """Compile it.

        Raises
        ------
        SyntaxError or ValueError
            If it is not Python.
        """
        self._code = compile(self._source, self.path, "exec", dont_inherit=True)

    def starts_ranks(self) -> bool:
        """Return whether it calls what starts processes, such as `torch.multiprocessing.spawn`."""
        try:
            nodes = [*ast.walk(ast.parse(self._source))]
        except (SyntaxError, ValueError):
            return False
        imported, called = set(), set()
        for node in nodes:
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Call):
                called.add(getattr(node.func, "attr", getattr(node.func, "id", None)))
        return bool(imported & set(_FROM)) and bool(called & _STARTS)

    def add_folder(self) -> None:
        """Make its folder, or for a module the working folder, the first to import from."""
        if not getattr(sys.flags, "safe_path", False):
            folder = os.path.dirname(os.path.realpath(self.path))
            sys.path[0] = os.getcwd() if self._spec else folder

    def execute(self, name="__main__") -> None:
        """Run it as ``__main__``; `name` is what it finds as ``__name__``."""
        if current.ranks is not None:
            current.ranks.rank.state.modules.watch()
        module = types.ModuleType(name)
        vars(module).update(
            __file__=self.path, __cached__=None, __builtins__=__builtins__,
            __loader__=SourceFileLoader(name, self.path),
        )  # fmt: skip
        if self._spec:
            module.__spec__, module.__package__ = self._spec, self._spec.parent
        sys.modules["__main__"], sys.argv = module, [self.path, *self._args]
        if name != "__main__":
            sys.modules[name] = module
        exec(self._code, vars(module))


def _find_module(name):
    """Return the spec of a module; of a package, its ``__main__``. Imports nothing.

    The packages that it is in are imported by each rank.
    """
    path, found = [os.getcwd(), *sys.path[1:]], None
    names = name.split(".")
    for i in range(len(names)):
        found = PathFinder.find_spec(".".join(names[: i + 1]), path)
        path = found and found.submodule_search_locations
        if found is None or (path is None and i + 1 < len(names)):
            raise ValueError(f"-m {name}: there is no module of this name")
    if path is not None:
        found = PathFinder.find_spec(f"{name}.__main__", path)
    if found is None or not str(found.origin).endswith(".py"):
        raise ValueError(f"-m {name}: it cannot be run; give a module that is a Python file")
    return found


def seed(rank) -> None:
    """Seed the host's generators by rank: different numbers on each, the same in every run.

    Device generators start from the same seed on all ranks, as CUDA's do.
    """
    torch.default_generator.manual_seed(rank)
    random.seed(rank)
    np.random.seed(rank)  # noqa: NPY002 (what scripts use)
