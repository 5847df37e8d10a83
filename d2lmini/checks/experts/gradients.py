"""Checker of the norm of all gradients, some of weights that few ranks have."""

import math

from torch.distributed.device_mesh import init_device_mesh

from d2lmini.checks.shared.ranks import draw, on_ranks
from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker

CASES = ((4, 2), (2, 2), (4, 1), (4, 4), (1, 1))  # ranks, and ranks of a group of experts
EXPERTS, NAMES = 4, ("replicas", "experts")


@checker("clip_norm(dense, experts, replicas)")
def check_clip_norm(clip_norm):
    """Check the norm of the averaged gradient of a model with experts.

    Parameters
    ----------
    clip_norm : callable
        ``clip_norm(dense, experts, replicas)``, called on every rank with lists of gradients of
        weights that all ranks have and of its own experts, not averaged yet, and with the group of
        the ranks that have the same experts; returning the norm on one GPU.

    Raises
    ------
    AssertionError
        If it returns another norm; the message names the usual mistakes.
    """
    for ranks, ep in CASES:
        where = f"on {ranks} rank{'s' * (ranks > 1)}, experts over {ep}"
        given, copies = clip_norm.at(where), ranks // ep
        dense = draw(ranks, 2, 6, seed=6)  # two weights, on each rank
        experts = draw(copies, EXPERTS, 5, seed=7)  # of each replica

        def run(rank, device, ep=ep, copies=copies, parts=(dense, experts), given=given):
            mesh = init_device_mesh(device.type, (copies, ep), mesh_dim_names=NAMES)
            own = parts[1][rank // ep].chunk(ep)[rank % ep]
            lists = [[g.to(device) for g in x.unbind()] for x in (parts[0][rank], own)]
            return given(*lists, mesh["replicas"].get_group())

        squares = [(g.sum(0) / ranks).square().sum().item() for g in (dense, experts)]
        right = math.sqrt(sum(squares))
        for rank, got in enumerate(on_ranks(given, run, ranks)[0]):
            got = number(got, f"{where}: what clip_norm returns")
            if not math.isclose(got, right, rel_tol=1e-9):
                raise AssertionError(
                    f"{where}: it is {right:.6g}, not {got:.6g} as on rank {rank}. "
                    f"{_explain(got, squares, ranks, ep, (dense, experts))}"
                )
    print("clip_norm: passed")


def _explain(got, squares, ranks, ep, parts):
    (dense, experts), copies = squares, ranks // ep
    local = [(part / ranks).square().sum().item() for part in parts]
    wrong = {
        "That is its square": (dense + experts) ** 2,
        f"The experts' part is {ep} times too large. They have seen the tokens of their whole "
        "group: sum over the replicas, and divide by the number of all ranks": (
            dense + ep**2 * experts
        ),
        f"Nothing was divided: each rank's loss is a mean, so the gradients are {ranks} times too "
        "large": ranks**2 * (dense + experts),
        f"Weights that all ranks have are counted {ranks} times": ranks * dense + experts,
        f"Each expert is counted {copies} times, once on each replica": dense + copies * experts,
        "Each weight is counted as often as there are ranks that have it": (
            ranks * dense + copies * experts
        ),
        "The experts are missing": dense,
        "Squares were added before the average; a norm is of the averaged gradients": sum(local),
    }
    for hint, square in wrong.items():
        if math.isclose(got, math.sqrt(square), rel_tol=1e-9):
            return hint
    return (
        "Average first: dense gradients over all ranks, those of experts over their replicas. "
        "Then sum the squares over all ranks, so that each weight counts once"
    )
