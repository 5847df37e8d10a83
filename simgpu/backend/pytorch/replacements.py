"""The one registry of what stands in place of PyTorch's own names, and for how long.

PyTorch leaves a backend in Python without hooks in some places (``x.to("sim")``, moves of modules,
`torch.Stream`). There a function of ours takes the place of PyTorch's, and hands on to it whatever
is not simulated. Such replacements are scoped: behind the last simulated machine, and behind the
last rank, every name stands again for what it stood for before.

A name is ``"module:attribute"``, such as ``"torch.nn:Module._apply"``.
"""

import functools
import importlib
from contextlib import ExitStack

import torch


def find(name: str):
    """Return what a name stands for now."""
    owner, attribute = owner_of(name)
    return getattr(owner, attribute)


def exists(name: str) -> bool:
    """Whether this PyTorch has a name."""
    try:
        find(name)
    except (ImportError, AttributeError):
        return False
    return True


@functools.lru_cache(None)
def owner_of(name: str) -> tuple:
    """Return the module or class that has a name, and the attribute's own name."""
    module, _, path = name.partition(":")
    *parents, attribute = path.split(".")
    if module.startswith("torch.ops."):
        owner = getattr(torch.ops, module.removeprefix("torch.ops."))
    else:
        owner = importlib.import_module(module)
    for parent in parents:
        owner = getattr(owner, parent)
    return owner, attribute


def replace(name: str, value):
    """Make a name stand for something else; return the function that restores it.

    If the name stands for a third thing by then, somebody has wrapped ours, and it is left alone.
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
    """Replacements that are restored together, the last one first, by `close`."""

    is_open = False

    def add(self, new: dict) -> None:
        """Replace names by values."""
        self.is_open = True
        for name, value in new.items():
            self.callback(replace(name, value))

    def close(self) -> None:
        """Restore all."""
        self.is_open = False
        super().close()
