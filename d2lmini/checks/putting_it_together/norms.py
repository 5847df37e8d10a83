"""The checker of the norm of a gradient of which each rank has parts and copies."""

import math

from d2lmini.checks.putting_it_together.meshes import each, run_on, same_everywhere
from d2lmini.checks.shared.ranks import draw
from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker

AXES = "pipeline", "replicate", "shard", "tensor"
MESHES = ((1, 1, 1, 1), (1, 2, 1, 1), (1, 1, 1, 2), (2, 1, 1, 2), (1, 2, 2, 2), (2, 1, 2, 2))
PARTS = ({"pipeline", "shard", "tensor"}, {"pipeline", "shard"})  # a weight, a norm's weight
SHAPES = (4, 3), (5,)


@checker("mesh_norm(gradients, parts, mesh)")
def check_mesh_norm(mesh_norm):
    """Check the norm of a gradient that is split over some axes of a mesh and copied over others.

    Parameters
    ----------
    mesh_norm : callable
        ``mesh_norm(gradients, parts, mesh)``, called on every rank with its tensors and, for each,
        the set of axes along which other ranks have other parts; along all other axes they have
        copies. It returns the norm of the whole gradient.

    Raises
    ------
    AssertionError
        If it returns another norm; the message names the usual mistakes.
    """
    for sizes, where in each(AXES, MESHES):

        def arguments(at):
            tensors = [_tensor(i, at) for i in range(len(PARTS))]
            return tensors, [set(axes) for axes in PARTS]

        results = run_on(mesh_norm.at(where), sizes, arguments)
        _check_stages(results, sizes, where)
        got = same_everywhere(results, where, "mesh_norm")
        squares = [_square(i, sizes) for i in range(len(PARTS))]
        right = math.sqrt(sum(squares))
        if not math.isclose(got, right, rel_tol=1e-9):
            hint = _explain(got, squares, sizes)
            raise AssertionError(f"{where}: the norm is {right:.6g}, not {got:.6g}. {hint}")
    print("mesh_norm: passed")


def _tensor(i, at):
    """Return the i-th tensor of a rank: the same wherever it is a copy."""
    seed = i
    for axis in AXES:
        seed = 8 * seed + (at[axis] if axis in PARTS[i] else 0)
    return draw(*SHAPES[i], seed=seed)


def _places(sizes, axes):
    found = [{}]
    for axis in AXES:
        numbers = range(sizes[axis]) if axis in axes else (0,)
        found = [place | {axis: number} for place in found for number in numbers]
    return found


def _square(i, sizes):
    return sum(_tensor(i, at).square().sum().item() for at in _places(sizes, PARTS[i]))


def _explain(got, squares, sizes):
    def is_root(*terms):
        return math.isclose(got, math.sqrt(sum(terms)), rel_tol=1e-9)

    replicas, tensors = sizes["replicate"], sizes["tensor"]
    copied = replicas * squares[0], replicas * tensors * squares[1]
    if is_root(squares[0], tensors * squares[1]):
        return f"The second tensor is the same on {tensors} ranks, and counts once"
    if is_root(*copied):
        return "Copies are counted as often as there are ranks that have them"
    if math.isclose(got, sum(squares), rel_tol=1e-9):
        return "That is its square"
    return "Add squares, not norms, and divide each by the number of ranks that have a copy"


def _check_stages(results, sizes, where):
    """Raise AssertionError if a rank returns the norm of its stage alone."""
    stages = sizes["pipeline"]
    for rank, got in enumerate(results):
        got = number(got, f"{where}: what mesh_norm returns on rank {rank}")
        square = _square_of_stage(rank * stages // math.prod(sizes.values()), sizes)
        assert stages == 1 or not math.isclose(got, math.sqrt(square), rel_tol=1e-9), (
            f"{where}: rank {rank} returns {got:.6g}, the norm of its own stage. That is "
            "torchtitan#596: each stage has other layers, and would clip by another norm"
        )


def _square_of_stage(stage, sizes):
    places = ((i, at) for i, axes in enumerate(PARTS) for at in _places(sizes, axes))
    return sum(_tensor(i, at).square().sum().item() for i, at in places if at["pipeline"] == stage)
