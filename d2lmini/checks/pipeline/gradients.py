"""Checkers of gradients in pipelines: micro-batches, tied weights, the global norm."""

import torch
from torch import nn
from torch.nn import functional as F

from d2lmini.checks.shared.results import number, tensor
from d2lmini.checks.shared.solution import checker


@checker("accumulate(stages, X, y, m)")
def check_accumulate(accumulate):
    """Check gradients that are accumulated over micro-batches.

    Parameters
    ----------
    accumulate : callable
        ``accumulate(stages, X, y, m)``, which stores in the parameters of the modules `stages` the
        gradient of the mean cross-entropy over the minibatch.

    Raises
    ------
    AssertionError
        If the gradient is wrong; the message names the usual mistakes.
    """
    for batch_size, m in ((8, 1), (8, 4), (10, 4)):
        where = f"{batch_size} examples in {m} micro-batches"
        torch.manual_seed(0)
        stages = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()), nn.Linear(6, 3)]
        X, y = torch.randn(batch_size, 6), torch.arange(batch_size) * 2 % 3
        parameters = [p for stage in stages for p in stage.parameters()]
        wanted = _flat(_mean_gradient(stages, X, y, parameters))
        accumulate.at(where)(stages, X, y, m)
        assert all(p.grad is not None for p in parameters), f"{where}: a parameter has no gradient"
        got = _flat([p.grad for p in parameters])
        if not torch.allclose(got, wanted, atol=1e-6):
            hint = _explain_gradient(got, wanted, stages, X, y, m, parameters)
            raise AssertionError(f"{where}: the gradients are off; {hint}")
    print("accumulate: passed")


def _mean_gradient(stages, X, y, parameters):
    return torch.autograd.grad(F.cross_entropy(nn.Sequential(*stages)(X), y), parameters)


def _flat(tensors):
    return torch.cat([t.detach().flatten() for t in tensors])


def _explain_gradient(got, wanted, stages, X, y, m, parameters):
    parts = list(zip(X.chunk(m), y.chunk(m), strict=True))
    single = [_flat(_mean_gradient(stages, a, b, parameters)) for a, b in parts]
    if torch.allclose(got, wanted / m, atol=1e-6):
        return f"they are divided by m = {m} twice"
    if torch.allclose(got, sum(single), atol=1e-6):
        return f"they are the sum of {m} means: divide by m, once"
    if torch.allclose(got, sum(single) / m, atol=1e-6):
        return "they are the mean of means, as if all micro-batches were equal in size"
    if torch.allclose(got, single[-1], atol=1e-6) or torch.allclose(got, single[-1] / m, atol=1e-6):
        return "only the last micro-batch counts: gradients add up, do not set them to zero between"
    if len(y) % m == 0:
        shifted = _flat(_mean_gradient(stages, X, y.roll(-(len(y) // m)), parameters))
        if torch.allclose(got, shifted, atol=1e-6):
            return "micro-batch i meets the labels of micro-batch i + 1"
    return "sum the losses of the examples, and divide by their number"


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
