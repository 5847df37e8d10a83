"""Checkers of gradients on t ranks, some of them split and others replicated."""

import math

from d2lmini.checks.shared.ranks import DEGREES, draw, on_ranks
from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker


@checker("gradient_norm(gradients, is_split)")
def check_gradient_norm(gradient_norm):
    """Check the norm of all gradients, some of them split and others replicated.

    Parameters
    ----------
    gradient_norm : callable
        ``gradient_norm(gradients, is_split)``, called on every rank with its gradients and, for
        each, whether it is this rank's part of a larger one (otherwise all ranks have the same);
        returning the norm of the whole model's gradient.

    Raises
    ------
    AssertionError
        If it returns another norm; the message names the usual mistakes.
    """
    shapes, is_split = ((8, 4), (8,), (4, 8), (6,)), [True, False, True, False]
    for t in DEGREES:
        whole = [draw(*shape, seed=i) for i, shape in enumerate(shapes)]
        split = sum(g.square().sum().item() for g in whole[::2])
        copies = sum(g.square().sum().item() for g in whole[1::2])
        where = f"on {t} rank{'s' * (t > 1)}"
        given = gradient_norm.at(where)

        def run(rank, device, t=t, whole=whole, given=given):
            parts = [g.chunk(t)[rank] if cut else g for g, cut in zip(whole, is_split, strict=True)]
            return given([p.to(device) for p in parts], list(is_split))

        for got in on_ranks(given, run, t)[0]:
            got = number(got, f"{where}: what gradient_norm returns")
            right = math.sqrt(split + copies)
            if not math.isclose(got, right, rel_tol=1e-9):
                raise AssertionError(
                    f"{where}: it is {right:.6g}, not {got:.6g}. "
                    f"{_explain_norm(got, split, copies, t)}"
                )
    print("gradient_norm: passed")


def _explain_norm(got, split, copies, t):
    if math.isclose(got, math.sqrt(split + t * copies), rel_tol=1e-9):
        return f"Replicated gradients are counted {t} times: sum over ranks only what is split"
    if math.isclose(got, split + copies, rel_tol=1e-9):
        return "That is its square"
    if math.isclose(got, math.sqrt(split), rel_tol=1e-9):
        return "The replicated gradients are missing"
    return "Add squares, not norms: those of the parts over all ranks, then those of the copies"
