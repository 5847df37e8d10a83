"""Checker of gradients in pipelines: tied weights, the norm over all stages."""

import torch

from d2lmini.checks.shared.results import number, tensor
from d2lmini.checks.shared.solution import checker


@checker("finish(gradients, tied, max_norm)")
def check_finish(finish):
    """Check a function that sums tied gradients and clips by the norm over all stages.

    Parameters
    ----------
    finish : callable
        ``finish(gradients, tied, max_norm)``, returning lists of tensors like `gradients`.

    Raises
    ------
    AssertionError
        If they are not those of one device; the message names the usual mistakes.
    """
    generator = torch.Generator().manual_seed(0)
    for max_norm in (1e6, 1.0):
        where = f"max_norm={max_norm:g}"
        gradients = [[torch.randn(4, generator=generator) for _ in range(2)] for _ in range(3)]
        tied = ((0, 0), (2, 1))
        given = finish.at(where)
        stages = given.items(given([list(s) for s in gradients], tied, max_norm), 3)
        got = [tensor(g, f"{where}: a gradient", (4,)) for s in stages for g in given.items(s, 2)]
        right, *wrong = _finished(gradients, max_norm)
        if torch.allclose(_flat(got), right, atol=1e-6):
            continue
        hints = (
            "the two parts of the tied gradient are not summed",
            "the tied matrix counts twice in the norm",
            "each stage is clipped by its own norm, which changes the direction",
        )
        hint = "sum the tied parts on both stages, then clip all by one norm"
        for what, value in zip(hints, wrong, strict=True):
            if torch.allclose(_flat(got), value, atol=1e-6):
                hint = what
                break
        raise AssertionError(f"{where}: the gradients are off; {hint}")
    print("finish: passed")


def _flat(tensors):
    return torch.cat([t.detach().flatten() for t in tensors])


def _finished(gradients, max_norm):
    """Yield the right gradients, then those of three mistakes, each as one vector."""
    untied = [list(stage) for stage in gradients]
    summed = [list(stage) for stage in gradients]
    summed[0][0] = summed[2][1] = gradients[0][0] + gradients[2][1]
    norm = _flat([g for s in summed for g in s])
    once = (norm.norm() ** 2 - summed[0][0].norm() ** 2).sqrt()
    yield norm * min(1, number(max_norm / once, "norm"))
    flat = _flat([g for s in untied for g in s])
    yield flat * min(1, number(max_norm / flat.norm(), "norm"))
    yield norm * min(1, number(max_norm / norm.norm(), "norm"))
    yield torch.cat([_flat(s) * min(1, number(max_norm / _flat(s).norm(), "n")) for s in summed])
