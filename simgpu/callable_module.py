"""Packages that can be called: ``simgpu.plan(...)`` beside ``from simgpu.plan import PlanError``.

The functions `plan` and `compare` have the names of the packages that define them. As soon as
anything imports a module of a package, Python binds its name in `simgpu` to the package, and a
function of that name would be gone. So the package itself is what is called: Python lets a module
have a class of its own.
"""

import inspect
import sys
from types import ModuleType


def make_callable(name, function) -> None:
    """Let calls of the module `name` call a function; `help` shows its arguments."""
    module = sys.modules[name]
    module.__class__ = type("CallableModule", (ModuleType,), {"__call__": staticmethod(function)})
    module.__signature__ = inspect.signature(function)
