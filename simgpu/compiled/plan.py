"""The plan of a region: its kernels, what it keeps, and when it allocates and frees memory."""

from dataclasses import dataclass, field
from typing import NamedTuple

from simgpu.compiled.checkpointed import by_policy, done_again, late
from simgpu.compiled.fusion import Kernel, fuse
from simgpu.compiled.kept import Forward
from simgpu.compiled.nodes import nodes_of, with_parts, with_unused

MOST_PLANS = 512


class Recorded(NamedTuple):
    """What a tape has recorded: all that a plan depends on.

    Attributes
    ----------
    entries : tuple of Entry
    sizes : tuple of int
        Bytes of each value.
    returned : frozenset of int
        Values that are read after the region.
    saved : frozenset of int
        Those that only autograd has kept.
    dropped : frozenset of int
        Inputs that nobody holds any more.
    in_place : frozenset of tuple
        For each value in memory that held another before: the value, the first one there, and
        whether the memory was there before the region.
    parts : frozenset of tuple
        For each value that a write to a part of some memory has made: the value, and the one that
        was there before, whose other parts are still there.
    unused : frozenset of int
        Gradients of results of which the program has not used these.
    backward : bool
        Whether it is of a backward pass.
    """

    entries: tuple
    sizes: tuple
    returned: frozenset
    saved: frozenset
    dropped: frozenset
    in_place: frozenset
    parts: frozenset
    unused: frozenset
    backward: bool


@dataclass(frozen=True, eq=False)
class Plan:
    """What is charged for a region.

    Attributes
    ----------
    kernels : list of Kernel
    kept : frozenset of int
        Values that are written for the backward pass.
    recipes : dict
        For each value that is not: the values, with bytes, from which it is computed again.
    sizes : list of int
        Bytes of each value, those that only the plan has included.
    allocated, freed : list of tuple of int
        For each kernel: the values that take memory before it, and give it back after it. The
        first value in a block stands for those that overwrite it.
    backward : bool
        Whether it is of a backward pass.
    costs : list of Cost
        What the operations take as eager code and as this plan, on the first GPU that ran them.
    """

    kernels: list[Kernel]
    kept: frozenset
    recipes: dict
    sizes: list
    allocated: list
    freed: list
    backward: bool
    costs: list = field(default_factory=list)


_plans: dict = {}  # by what was recorded


def plan_of(recorded: Recorded) -> Plan:
    """Return the plan of what a tape has recorded, which is made once."""
    found = _plans.get(recorded)
    if found is None:
        while len(_plans) >= MOST_PLANS:
            del _plans[next(iter(_plans))]
        found = _plans[recorded] = _make(recorded)
    return found


def _make(recorded):
    sizes = list(recorded.sizes)
    nodes, enough = nodes_of(recorded.entries, sizes)
    again = done_again(recorded) if recorded.backward else set()
    nodes = late(nodes, again)
    nodes = with_unused(nodes, sizes, recorded.unused)
    nodes, written = with_parts(nodes, dict(recorded.parts))
    kept, recipes = set(), {}
    if recorded.saved:
        marked, idle = by_policy(recorded.entries, recorded.saved)
        enough |= dict.fromkeys(idle) | {v: v for v in marked}
        needed = {enough.get(v, v) for v in recorded.saved} - {None}
        forward = Forward(nodes, sizes, _inputs(nodes) | recorded.returned, needed, marked)
        kept = forward.kept() - recorded.returned
        recipes = {v: forward.recipe(enough.get(v, v), kept) for v in recorded.saved - kept}
    kernels = fuse(nodes, sizes, kept | recorded.returned, again, written)
    places = _Places(recorded.in_place)
    recipes = {v: places.of_pairs(recipe) for v, recipe in recipes.items()}
    stay = kept | recorded.returned | {v for recipe in recipes.values() for v, _ in recipe}
    allocated = places.allocated(kernels)
    freed = places.freed(kernels, recorded.dropped.union(*allocated) - places.of(stay))
    return Plan(kernels, frozenset(kept), recipes, sizes, allocated, freed, recorded.backward)


def _inputs(nodes):
    made = {v for node in nodes for v, _ in node.writes}
    return {v for node in nodes for v, *_ in node.reads} - made


class _Places:
    """Which values share memory: each place is named by the first value in it."""

    def __init__(self, in_place):
        self._first = {v: first for v, first, _ in in_place}
        self._exist = {first for _, first, exists in in_place if exists}

    def of(self, values):
        """Return the places of values."""
        return {self._first.get(v, v) for v in values}

    def of_pairs(self, pairs):
        """Return the places of pairs of a value and bytes."""
        return tuple([(self._first.get(v, v), num_bytes) for v, num_bytes in pairs])

    def allocated(self, kernels):
        """Return the places that each kernel is the first to use."""
        made, found = set(self._exist), []
        for kernel in kernels:
            places = self.of(kernel.writes)
            found.append(tuple(places - made))
            made |= places
        return found

    def freed(self, kernels, places):
        """Return which of some places each kernel is the last to use."""
        found = [[] for _ in kernels]
        used = [self.of((*kernel.writes, *kernel.reads)) for kernel in kernels]
        last = {place: k for k, those in enumerate(used) for place in those}
        for place in places & last.keys():
            found[last[place]].append(place)
        return [tuple(those) for those in found]
