"""Checker of an average of gradients that ranks hold in different orders."""

import torch
import torch.distributed as dist

import simgpu as sim
from d2lmini.checks.shared.results import describe
from d2lmini.checks.shared.solution import checker

# The length of each gradient, by name: all equal, and different.
LENGTHS = ({"bias": 2, "scale": 2, "weight": 2}, {"bias": 1, "scale": 3, "weight": 4})


@checker("average(gradients)", may_change=["gradients"])
def check_average(average):
    """Check a function that averages gradients over ranks, in place.

    Parameters
    ----------
    average : callable
        ``average(gradients)``, called on every rank of a job with a dict of tensors by name. All
        ranks have the same names, in different orders. Afterwards each tensor is the mean over the
        ranks.

    Raises
    ------
    AssertionError
        If a tensor is not the mean, or is used while its collective is in flight; the message names
        the usual mistakes.
    """
    for n, lengths in ((2, LENGTHS[0]), (3, LENGTHS[0]), (3, LENGTHS[1])):
        where = f"{n} ranks"
        solution = average.at(where)

        def program(rank, lengths=lengths, solution=solution):
            dist.init_process_group()
            gpu = torch.accelerator.current_accelerator()
            gradients = {name: _gradient(rank, name, lengths).to(gpu) for name in lengths}
            given = {name: gradients[name] for name in _order(rank, lengths)}
            got = solution(given)
            if got is not None and not isinstance(got, dict):
                solution.fail(f"returned {describe(got)}; average in place")
            return {name: value.cpu() for name, value in gradients.items()}

        with solution.running():
            results = sim.spawn(program, nprocs=n)
        for rank, got in enumerate(results):
            for name in lengths:
                _check_mean(f"{where}: rank {rank}, {name!r}", got[name], rank, name, n, lengths)
    print("average: passed")


def _order(rank, names):
    """Return the names in the order of a rank."""
    names = list(names)
    return names[rank % len(names) :] + names[: rank % len(names)]


def _gradient(rank, name, lengths):
    """Return the gradient of a rank with a name."""
    scale = (rank + 1) * 10.0 ** list(lengths).index(name)
    return scale * torch.arange(1.0, lengths[name] + 1)


def _check_mean(where, got, rank, name, n, lengths):
    """Raise AssertionError, with the reason, unless `got` is the mean over n ranks."""
    total = sum(_gradient(other, name, lengths) for other in range(n))
    if torch.allclose(got, total / n):
        return
    mixed = torch.zeros_like(total)
    if len(set(lengths.values())) == 1:
        position = _order(rank, lengths).index(name)
        for other in range(n):
            mixed += _gradient(other, _order(other, lengths)[position], lengths)
    hint = "it must be the sum over the ranks, divided by their number"
    if torch.allclose(got, total):
        hint = "that is the sum; divide by the number of ranks"
    elif torch.allclose(got, total / n**2):
        hint = "that is divided by the number of ranks twice"
    elif torch.equal(got, _gradient(rank, name, lengths)):
        hint = "that is the rank's own gradient; write the mean into the tensor itself"
    elif torch.allclose(got, mixed / n) or torch.allclose(got, mixed):
        hint = (
            "gradients of different names were added: on all ranks, make the calls in the same "
            "order, such as that of sorted(gradients)"
        )
    raise AssertionError(f"{where} is {got.tolist()}, not {(total / n).tolist()}; {hint}")
