"""The strips by name: what readers choose, and the film of each choice."""

from __future__ import annotations

from itertools import product

from tools.figures.strips import experts, mesh, pipeline, schedules, sequence, sums, tensor, zero

# name: what the strip is called, what readers choose, and who makes the film of a choice
KINDS = {
    "sums": ("What each rank has summed", {"All-reduce": sums.WAYS}, sums.film),
    "zero": ("What each rank holds in a step", {"Stage": zero.STAGES}, zero.film),
    "tensor": ("Shapes by region", {"Split": tensor.SPLITS}, tensor.film),
    "pipeline": (
        "A pipeline's step",
        {
            "Schedule": schedules.SCHEDULES,
            "GPUs, p": ("2", "4"),
            "Micro-batches, m": ("1", "4", "8"),
        },
        lambda schedule, p, m: pipeline.film(schedule, int(p), int(m)),
    ),
    "sequence": ("Ring attention", {"Chunks": sequence.ORDERS}, sequence.film),
    "experts": ("Two all-to-alls", {}, experts.film),
    "mesh": ("Ranks of a mesh", {"Mesh": tuple(mesh.MESHES)}, mesh.film),
}


def title(kind):
    """Return what a strip is called."""
    return KINDS[kind][0]


def films(kind):
    """Return all films of a kind, by what is chosen."""
    _, choices, make = KINDS[kind]
    return {chosen: make(*chosen) for chosen in product(*choices.values())}
