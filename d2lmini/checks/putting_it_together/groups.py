"""The checker of groups: which ranks share an axis."""

from itertools import product

from d2lmini.checks.putting_it_together.meshes import describe_mesh
from d2lmini.checks.shared.results import whole_number
from d2lmini.checks.shared.solution import checker

MESHES = (
    {"tensor": 4},
    {"shard": 2, "tensor": 4},
    {"pipeline": 2, "shard": 3, "tensor": 2},
    {"pipeline": 2, "replicate": 1, "shard": 2, "context": 2, "tensor": 2},
)


@checker("group_of(rank, sizes, axis)")
def check_group_of(group_of):
    """Check which ranks share a group along an axis of a mesh.

    Parameters
    ----------
    group_of : callable
        ``group_of(rank, sizes, axis)``, returning the sorted list of the ranks that share a group
        with `rank` along `axis`. `sizes` is a dictionary of axes and sizes, from the farthest
        axis to the nearest.

    Raises
    ------
    AssertionError
        If it returns others; the message names the usual mistakes.
    """
    for sizes in MESHES:
        places = list(product(*(range(size) for size in sizes.values())))
        for rank in range(len(places)):
            for axis in sizes:
                right = members(rank, sizes, axis)
                where = f"rank {rank} of a mesh of {describe_mesh(sizes)}, along {axis}"
                given = group_of.at(where)
                found = given.items(given(rank, dict(sizes), axis))
                got = [whole_number(i, f"{where}: a rank in what it returns") for i in found]
                if got != right:
                    hint = _explain(got, right, rank, sizes, axis)
                    raise AssertionError(f"{where}: the group is {right}, not {got}. {hint}")
    print("group_of: passed")


def members(rank, sizes, axis):
    """Return the right answer; see `check_group_of`."""
    places = list(product(*(range(size) for size in sizes.values())))
    at = list(sizes).index(axis)

    def others(place):
        return place[:at] + place[at + 1 :]

    return [i for i, place in enumerate(places) if others(place) == others(places[rank])]


def _explain(got, right, rank, sizes, axis):
    if sorted(got) == right:
        return "Sort it"
    if sorted([*got, rank]) == right:
        return "The rank itself belongs to its group"
    backwards = dict(reversed(sizes.items()))
    if got == members(rank, backwards, axis):
        return (
            "That would be right if the first axis were the nearest. The last one is: its ranks "
            "are neighbours"
        )
    if got == members(0, sizes, axis):
        return "The group depends on the rank"
    if len(got) != len(right):
        return f"A group along {axis} has {sizes[axis]} ranks, one for each place on this axis"
    return "All other coordinates of its ranks are those of the rank"
