"""Operators that scripts define with `torch.library`: each rank calls its own functions.

PyTorch has one table of operators in a process, which ranks share. So an operator is defined when
the first rank does so, until the last one drops it, and what the table has for it calls the
function of the rank that runs.
"""

import functools

import torch
from torch._library import simple_registry

from simgpu.backend.pytorch.replacements import find
from simgpu.clock import current

_NEW = "torch._C:_dispatch_library"
_RULE = "torch.library:Library._register_torch_dispatch_rule"
_FAKE = "torch._library.fake_impl:FakeImplHolder.register"
_IMPL = "torch.library:Library.impl"
_OF_CUSTOM_OP = "torch._library.custom_ops:get_library_allowing_overwrite"
_new_library = find(_NEW)
_entries: dict = {}  # what is in the table because of ranks, by its names


class _Entry:
    """A definition, a function or a rule in PyTorch's table."""

    undo = None  # takes it out of the table

    def __init__(self):
        self._of_ranks = {}  # libraries of ranks, and their functions

    def add(self, library, function):
        """Add the function of the rank that has a library."""
        self._of_ranks[library.rank] = library, function

    def drop(self, library):
        """Forget what a library has; return whether that was the last."""
        if self._of_ranks.get(library.rank, (None,))[0] is library:
            del self._of_ranks[library.rank]
        if not self._of_ranks:
            self.undo()
        return not self._of_ranks

    def __call__(self, *args, **kwargs):
        """Call the function of this rank, or one that was registered for all."""
        rank = current.ranks.rank if current.ranks is not None else None
        of_any = next(iter(self._of_ranks.values()))
        return self._of_ranks.get(rank, of_any)[1](*args, **kwargs)


class _Library:
    """What one `torch.library.Library` of a rank registers with."""

    def __init__(self, kind, namespace, key, *where):
        self.rank = current.ranks.rank
        self._kind = "IMPL" if kind == "IMPL" else "FRAGMENT"  # a fragment has no key
        self._namespace, self._key, self._where, self._has = namespace, key, where, set()

    def define(self, schema, *args):
        """Define an operator."""
        self._add(("define", schema), None, lambda table, _: table.define(schema, *args))
        return schema.partition("(")[0]

    def impl(self, name, key, function, with_keyset=False):
        """Register a function for an operator."""

        def register(table, entry):
            falls_through = function is torch.library.fallthrough_kernel
            table.impl(name, key, function if falls_through else entry, with_keyset)

        self._add(("impl", name.rpartition("::")[2], key), function, register)

    def fallback(self, key, function, with_keyset=False):
        """Register a function for all operators."""

        def register(table, entry):
            falls_through = function is torch.library.fallthrough_kernel
            table.fallback(key, function if falls_through else entry, with_keyset)

        self._add(("fallback", key), function, register)

    def register_ad_inplace_or_view_fallback(self, name):
        """Register PyTorch's own function for an operator that changes its inputs."""
        self._add(
            ("views", name), None,
            lambda table, _: table.register_ad_inplace_or_view_fallback(name),
        )  # fmt: skip

    def add_rule(self, name, kind, function):
        """Register what an operator does with tensors, or in a mode, of a kind."""

        def register(_, entry):
            operator = simple_registry.singleton.find(f"{self._namespace}::{name}")
            return operator.torch_dispatch_rules.register(kind, entry).destroy

        self._add(("rule", name, kind), function, register)

    def reset(self):
        """Drop all of it."""
        for names in self._has:
            if names in _entries and _entries[names].drop(self):
                del _entries[names]
        self._has.clear()

    def _add(self, names, function, register):
        names = self._namespace, *names
        if names not in _entries:
            table = _new_library(self._kind, self._namespace, self._key, *self._where)
            entry = _Entry()
            undo = register(table, entry)
            entry.undo = undo if callable(undo) else table.reset
            _entries[names] = entry
        _entries[names].add(self, function)
        self._has.add(names)


def _make(kind, namespace, key, *where):
    new = _new_library if current.ranks is None else _Library
    return new(kind, namespace, key, *where)


def _after_others(library):
    """Return how PyTorch 2.11 lets a rank register what others have: the default of later ones."""
    return {"allow_override": True} if isinstance(library.m, _Library) else {}


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    find_library, register, libraries = find(_OF_CUSTOM_OP), find(_RULE), {}
    register_fake, impl = find(_FAKE), find(_IMPL)

    def library_of(namespace, name):
        """Leave the library of another rank alone, which has an operator of the same name."""
        if current.ranks is None:
            return find_library(namespace, name)
        key = current.ranks.rank, namespace, name
        if key in libraries:
            libraries[key]._destroy()
        libraries[key] = torch.library.Library(namespace, "FRAGMENT")
        return libraries[key]

    @functools.wraps(impl)
    def add_impl(library, *args, **how):
        return impl(library, *args, **_after_others(library) | how)

    @functools.wraps(register_fake)
    def add_fake(holder, function, source, lib, **how):
        return register_fake(holder, function, source, lib, **how | _after_others(lib))

    def add_rule(library, *rule):
        is_of_rank = isinstance(library.m, _Library)
        return library.m.add_rule(*rule) if is_of_rank else register(library, *rule)

    return {
        _NEW: _make, _IMPL: add_impl, _FAKE: add_fake, _OF_CUSTOM_OP: library_of,
        _RULE: functools.wraps(register)(add_rule),
    }  # fmt: skip
