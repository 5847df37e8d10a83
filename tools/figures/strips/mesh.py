"""Meshes of eight ranks: the coordinates of each, what it holds, and its groups."""

from __future__ import annotations

from math import prod

from tools.figures.strips.film import EMPTY, FOREVER, PASSED, Film
from tools.words import chain, fill, say

RANKS = 8
MESHES = {
    "8 replicas": {"replicate": 8},
    "4 replicas x 2 tensor": {"replicate": 4, "tensor": 2},
    "2 stages x 2 shards x 2 tensor": {"pipeline": 2, "shard": 2, "tensor": 2},
    "2 shards x 4 contexts": {"shard": 2, "context": 4},
    "experts: 2 replicas x 4 of experts": {"replicate": 2, "expert": 4},
}
AXES = {
    "replicate": say("replicate"), "shard": say("shard"), "tensor": say("tensor"),
    "context": say("context"), "pipeline": say("pipeline"), "expert": say("expert"),
}  # fmt: skip
HOLDS = {
    "replicate": say("along {axis}, its own batch"),
    "shard": say("along {axis}, its own batch, and 1/{n} of the states"),
    "tensor": say("along {axis}, 1/{n} of each matrix"),
    "context": say("along {axis}, 1/{n} of each sequence"),
    "pipeline": say("along {axis}, 1/{n} of the layers"),
    "expert": say("along {axis}, 1/{n} of the experts"),
}


def coordinates(rank, shape):
    """Return the coordinates of a rank; neighbouring ranks differ in the last one."""
    found = []
    for i, size in enumerate(shape):
        found.append(rank // prod(shape[i + 1 :]) % size)
    return tuple(found)


def groups(mesh, axis):
    """Return the groups of ranks that differ along one axis only."""
    shape, place = list(mesh.values()), list(mesh).index(axis)
    found = {}
    for rank in range(RANKS):
        where = coordinates(rank, shape)
        found.setdefault(where[:place] + where[place + 1 :], []).append(rank)
    return list(found.values())


def film(name):
    """Return the film of a mesh: first the coordinates, then the groups of each axis."""
    made, mesh = Film(296), MESHES[name]
    made.text(6, 14, say("rank"), "start")
    for i, (axis, size) in enumerate(mesh.items()):
        made.text(96 + 112 * i, 14, f"{AXES[axis]} {size}")
    for rank in range(RANKS):
        made.box(6, 28 + 29 * rank, 26, 25, EMPTY, rank, 0, 0)
        for i, where in enumerate(coordinates(rank, list(mesh.values()))):
            for since, until in ((0, i), (i + 2, FOREVER)):  # its own step is coloured
                made.box(48 + 112 * i, 28 + 29 * rank, 96, 25, EMPTY, where, since, until)
    shares = [fill(HOLDS[a], {"axis": AXES[a], "n": n}) for a, n in mesh.items()]
    told = say(
        "Each rank has one coordinate on each axis, and holds: {shares}.",
        shares=chain(shares, say("{before}; {item}")),
    )
    made.says.append(told)
    made.text(6, 278, say("a row: the coordinates of a rank"), "start", until=0)
    for step, axis in enumerate(mesh, 1):
        _groups(made, mesh, axis, step)
    return made


def _groups(made, mesh, axis, step):
    found = groups(mesh, axis)
    listed = "; ".join(" ".join(map(str, group)) for group in found)
    name = AXES[axis]
    made.says.append(say("Groups along {axis}, by rank: {groups}.", axis=name, groups=listed))
    told = say("same colour: a group along {axis}", axis=name)
    made.text(6, 278, told, "start", since=step, until=step)
    column = list(mesh).index(axis)
    for colour, group in enumerate(found):
        for rank in group:
            where = coordinates(rank, list(mesh.values()))[column]
            fill = PASSED + colour % 4
            made.box(6, 28 + 29 * rank, 26, 25, fill, rank, step, step)
            made.box(48 + 112 * column, 28 + 29 * rank, 96, 25, fill, where, step, step)
