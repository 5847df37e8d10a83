"""Run a solution on every rank of a mesh."""

import math

import torch
from torch.distributed.device_mesh import init_device_mesh

from d2lmini.checks.shared.ranks import on_ranks
from d2lmini.checks.shared.results import number


def run_on(solution, sizes, arguments):
    """Call the solution on each rank of a mesh; return the results, one for each rank.

    Parameters
    ----------
    solution : Solution
    sizes : dict
        The mesh: axis -> size, from the farthest axis to the nearest.
    arguments : callable
        ``arguments(place)`` with the rank's coordinates, axis -> number; returning what the
        solution is given before the mesh: tensors on the host, lists of them, or other values.
    """

    def run(rank, device):
        mesh = init_device_mesh(device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        place = {axis: mesh.get_local_rank(axis) for axis in sizes}
        return solution(*(_to(device, each) for each in arguments(place)), mesh)

    return on_ranks(solution, run, math.prod(sizes.values()))[0]


def each(axes, shapes):
    """Yield the sizes of each mesh, axis -> size, and a phrase that names it."""
    for shape in shapes:
        sizes = dict(zip(axes, shape, strict=True))
        yield sizes, f"on a mesh of {describe_mesh(sizes)}"


def same_everywhere(results, where, name):
    """Return the number that all ranks returned."""
    values = [number(value, f"{where}: what {name} returns") for value in results]
    for rank, value in enumerate(values):
        both_nan = math.isnan(value) and math.isnan(values[0])
        assert both_nan or math.isclose(value, values[0], rel_tol=1e-9), (
            f"{where}: rank 0 returns {values[0]:.6g} and rank {rank} {value:.6g}; all ranks need "
            "the same number. Is the sum over an axis missing?"
        )
    return values[0]


def describe_mesh(sizes):
    """Return a mesh in words."""
    return " x ".join(f"{axis} {size}" for axis, size in sizes.items())


def _to(device, value):
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, list):
        return [_to(device, item) for item in value]
    return value
