"""Checker of the gradients of weights that ranks compute from their parts of a sequence."""

import torch
from torch import nn

from d2lmini.checks.shared.ranks import differ, on_ranks
from d2lmini.checks.shared.solution import checker

WORDS, WIDTH = 7, 5
LENGTHS = ((6,), (4, 4), (5, 2, 4))  # tokens of each rank


@checker("sequence_gradients(model, tokens, targets)", may_change=["model"])
def check_sequence_gradients(sequence_gradients):
    """Check the gradients of the mean loss over a sequence that is divided among ranks.

    The function with the mistake of Automodel#3157 is refused with that name.

    Parameters
    ----------
    sequence_gradients : callable
        ``sequence_gradients(model, tokens, targets)``, called on every rank with the same weights
        and the rank's part of the sequence, whose length may differ between ranks. It leaves the
        gradient of the mean cross-entropy over the whole sequence in the parameters of the model.

    Raises
    ------
    AssertionError
        If a rank has another gradient; the message names the usual mistakes.
    """
    for lengths in LENGTHS:
        where = f"{len(lengths)} rank(s) with {lengths} tokens"
        tokens = torch.arange(sum(lengths)) * 3 % WORDS
        shares = list(zip(tokens.split(lengths), tokens.flip(0).split(lengths), strict=True))
        given = sequence_gradients.at(where)

        def run(rank, device, given=given, shares=shares):
            model = _model().to(device)
            given(model, *(part.to(device) for part in shares[rank]))
            return [p.grad for p in model.parameters()]

        _check_gradients(on_ranks(given, run, len(lengths))[0], shares, where)
    print("sequence_gradients: passed")


def _model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)).double()


def _sum(shares):
    """Return the gradient of the summed loss of some ranks' tokens, in one tensor."""
    model = _model()
    for tokens, targets in shares:
        nn.functional.cross_entropy(model(tokens), targets, reduction="sum").backward()
    return _flat([p.grad for p in model.parameters()])


def _flat(gradients):
    return torch.cat([gradient.flatten() for gradient in gradients])


def _check_gradients(results, shares, where):
    count = sum(len(tokens) for tokens, _ in shares)
    right = _sum(shares) / count
    for rank, gradients in enumerate(results):
        assert None not in gradients, (
            f"{where}: rank {rank} has no gradient of a parameter; call backward()"
        )
        got = _flat(gradients)
        if differ(got, right):
            hint = _explain(got, shares, rank, right)
            ratio = (got @ right / (right @ right)).item()
            times = "" if differ(got, ratio * right) else f": it is {ratio:.3g} times the right one"
            raise AssertionError(
                f"{where}: rank {rank} does not have the gradient of one GPU{times}. {hint}"
            )


def _explain(got, shares, rank, right):
    n, sizes = len(shares), [len(tokens) for tokens, _ in shares]
    means = sum(_sum([share]) / size for share, size in zip(shares, sizes, strict=True))
    named = {
        f"That is Automodel#3157: each rank's loss is divided by the tokens of all {n} ranks "
        "already, so that its gradients have to be added, not averaged": right / n,
        "That is the gradient of the rank's own tokens: add up those of all ranks": (
            _sum([shares[rank]]) / sum(sizes)
        ),
        "The gradient of the rank's own mean loss has seen no other rank": (
            _sum([shares[rank]]) / sizes[rank]
        ),
        "Ranks with different numbers of tokens count equally: divide by the tokens of all": (
            means / n
        ),
        "The means of the ranks are added": means,
        "Divide the sum of the losses by the tokens of all ranks": right * sum(sizes),
    }
    for hint, gradient in named.items():
        if not differ(got, gradient):
            return hint
    return "Divide each rank's summed loss by the tokens of all ranks, and add up the gradients"
