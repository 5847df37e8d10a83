"""The plan of a region: its kernels, what it keeps, and when it allocates and frees memory."""

from dataclasses import dataclass, field
from typing import NamedTuple

from simgpu.compiled.fusion import Kernel, fuse
from simgpu.compiled.kept import Forward
from simgpu.compiled.nodes import nodes_of

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
    in_place : frozenset of int
        Values in memory that held another before.
    backward : bool
        Whether it is of a backward pass.
    """

    entries: tuple
    sizes: tuple
    returned: frozenset
    saved: frozenset
    dropped: frozenset
    in_place: frozenset
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
        For each kernel: the values that take memory before it, and give it back after it.
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
    nodes = nodes_of(recorded.entries, sizes)
    kept, recipes = set(), {}
    if recorded.saved:
        forward = Forward(nodes, sizes, _inputs(nodes) | recorded.returned, recorded.saved)
        kept = forward.kept() - recorded.returned
        recipes = {v: forward.recipe(v, kept) for v in recorded.saved - kept}
    kernels = fuse(nodes, sizes, kept | recorded.returned)
    allocated = _allocated(kernels, recorded.in_place)
    sources = {v for recipe in recipes.values() for v, _ in recipe}
    freed = _freed(kernels, allocated, kept | recorded.returned | sources, recorded.dropped)
    return Plan(kernels, frozenset(kept), recipes, sizes, allocated, freed, recorded.backward)


def _inputs(nodes):
    made = {v for node in nodes for v, _ in node.writes}
    return {v for node in nodes for v, _ in node.reads} - made


def _allocated(kernels, in_place):
    made, found = set(in_place), []
    for kernel in kernels:
        found.append(tuple(kernel.writes.keys() - made))
        made |= kernel.writes.keys()
    return found


def _freed(kernels, allocated, stay, dropped):
    """Return what each kernel is the last to use, of what is made here and of dropped inputs."""
    may = dropped.union(*allocated) - stay
    last = {v: k for k, kernel in enumerate(kernels) for v in (*kernel.writes, *kernel.reads)}
    found = [[] for _ in kernels]
    for v in may:
        if v in last:
            found[last[v]].append(v)
    return [tuple(values) for values in found]
