"""Checker of a loss by which all ranks decide what to do next."""

import math

import torch

from d2lmini.checks.shared.ranks import draw, on_ranks
from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker

COUNTS = ((3, 5), (2, 1, 4))  # examples of each rank


@checker("validation_loss(losses)")
def check_validation_loss(validation_loss):
    """Check the mean loss over the examples of all ranks, which every rank needs.

    The function with the mistake of pytorch#77562 is refused with that name.

    Parameters
    ----------
    validation_loss : callable
        ``validation_loss(losses)``, called on every rank with the losses of its examples, a tensor
        whose length differs between ranks. It returns their mean over all ranks, on every rank.

    Raises
    ------
    AssertionError
        If a rank gets another number; the message names the usual mistakes.
    """
    for counts in COUNTS:
        where = f"ranks with {counts} examples"
        shares = [draw(count, seed=rank).abs() + rank for rank, count in enumerate(counts)]
        given = validation_loss.at(where)

        def run(rank, device, given=given, shares=shares, where=where):
            result = given(shares[rank].to(device))
            return number(result, f"{where}: what validation_loss returns on rank {rank}")

        _check_losses(on_ranks(given, run, len(counts))[0], shares, where)
    print("validation_loss: passed")


def _check_losses(results, shares, where):
    right = torch.cat(shares).mean().item()
    wrong = [rank for rank, got in enumerate(results) if not math.isclose(got, right, rel_tol=1e-9)]
    if not wrong:
        return
    rank, got = wrong[0], results[wrong[0]]
    hint = _explain(got, shares, rank, right)
    if 0 not in wrong:
        hint = (
            "Rank 0 has it. That is pytorch#77562: `reduce` gives the sum to one rank alone, so "
            "that the others compare another number with the best loss. Where they decide "
            "otherwise, some ranks save and the rest wait in another collective forever"
        )
    raise AssertionError(f"{where}: rank {rank} returns {got:.6g}, not {right:.6g}. {hint}")


def _explain(got, shares, rank, right):
    means = [share.mean().item() for share in shares]
    examples = sum(map(len, shares))
    named = {
        means[rank]: "That is the mean over the rank's own examples: add up over all ranks",
        sum(means) / len(means): "That is the mean of the ranks' means, and ranks have different "
        "numbers of examples",
        right * examples: "That is the sum: divide by the examples of all ranks",
        right * examples / len(shares[rank]): "The sum over all ranks is divided by the examples "
        "of one",
        right * examples / len(shares): "The sum is divided by the number of ranks: add up the "
        "examples, too",
    }
    for value, hint in named.items():
        if math.isclose(got, value, rel_tol=1e-9):
            return hint
    return "Add up losses and examples, both over all ranks, and divide once"
