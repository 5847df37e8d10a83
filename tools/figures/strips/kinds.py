"""The strips by name: what readers choose, and the film of each choice."""

from __future__ import annotations

from itertools import product

from tools.figures.strips import experts, mesh, pipeline, schedules, sequence, sums, tensor, zero
from tools.words import say

# name: what the strip is called, what readers choose, and who makes the film of a choice
KINDS = {
    "sums": (say("What each rank has summed"), {say("All-reduce"): sums.WAYS}, sums.film),
    "zero": (say("What each rank holds in a step"), {say("Stage"): zero.STAGES}, zero.film),
    "tensor": (say("Shapes by region"), {say("Split"): tensor.SPLITS}, tensor.film),
    "pipeline": (
        say("A pipeline's step"),
        {
            say("Schedule"): schedules.SCHEDULES,
            say("GPUs, p"): ("2", "4"),
            say("Micro-batches, m"): ("1", "4", "8"),
        },
        lambda schedule, p, m: pipeline.film(schedule, int(p), int(m)),
    ),
    "sequence": (say("Ring attention"), {say("Chunks"): sequence.ORDERS}, sequence.film),
    "experts": (say("Two all-to-alls"), {}, experts.film),
    "mesh": (say("Ranks of a mesh"), {say("Mesh"): tuple(mesh.MESHES)}, mesh.film),
}


def title(kind):
    """Return what a strip is called."""
    return KINDS[kind][0]


def films(kind):
    """Return all films of a kind, by what is chosen."""
    _, choices, make = KINDS[kind]
    return {chosen: make(*chosen) for chosen in product(*choices.values())}
