"""Replacing PyTorch's own functions for a time, and restoring them: all patches are made here.

PyTorch has no hooks for a backend in Python in some places (``x.to("sim")``, moves of modules,
`torch.Stream`). There a function of ours replaces PyTorch's and passes on to it whatever is not
simulated. Such replacements are scoped: after the last simulated machine, and after the last rank,
every name has its original value again.

A name is ``"module:attribute"``, such as ``"torch.nn:Module._apply"``.
"""

import functools
import importlib
from contextlib import ExitStack

import torch


def find(name: str):
    """Return the present value of a name."""
    owner, attribute = owner_of(name)
    return getattr(owner, attribute)


def exists(name: str) -> bool:
    """Whether this version of PyTorch has a name.

    Only a missing module or attribute makes it False: any error of a module that is there but
    cannot be imported is raised, since it has another reason.
    """
    module, _, path = name.partition(":")
    try:
        value = _module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        return False
    for attribute in path.split("."):
        if not hasattr(value, attribute):
            return False
        value = getattr(value, attribute)
    return True


@functools.lru_cache(None)
def owner_of(name: str) -> tuple:
    """Return the module or class that holds a name, and the name of its attribute."""
    module, _, path = name.partition(":")
    *parents, attribute = path.split(".")
    owner = _module(module)
    for parent in parents:
        owner = getattr(owner, parent)
    return owner, attribute


def _module(name):
    if name.startswith("torch.ops."):
        return getattr(torch.ops, name.removeprefix("torch.ops."))
    return importlib.import_module(name)


def replace(name: str, value):
    """Give a name another value; return the function that restores the original.

    If the name has a third value by then, other code has wrapped ours, and it is left alone.
    """
    owner, attribute = owner_of(name)
    before = vars(owner).get(attribute, owner)  # the owner itself: the name was inherited

    def restore():
        if vars(owner).get(attribute) is not value:
            return
        if before is owner:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, before)

    setattr(owner, attribute, value)
    return restore


class Replacements(ExitStack):
    """Replacements that `close` undoes together, the last one first."""

    is_open = False

    def add(self, new: dict) -> None:
        """Replace the values of names."""
        self.is_open = True
        for name, value in new.items():
            self.callback(replace(name, value))

    def close(self) -> None:
        """Restore all names."""
        self.is_open = False
        super().close()
