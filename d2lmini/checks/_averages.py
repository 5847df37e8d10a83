"""Gradients that ranks hold in different orders, and what a wrong average of them is."""

import torch

# The length of each gradient, by name: of one length, and of several.
LENGTHS = ({"bias": 2, "scale": 2, "weight": 2}, {"bias": 1, "scale": 3, "weight": 4})


def order(rank, names):
    """Return the names in the order in which a rank holds them."""
    names = list(names)
    return names[rank % len(names) :] + names[: rank % len(names)]


def gradient(rank, name, lengths):
    """Return the gradient that a rank holds under a name."""
    scale = (rank + 1) * 10.0 ** list(lengths).index(name)
    return scale * torch.arange(1.0, lengths[name] + 1)


def check_mean(where, got, rank, name, n, lengths):
    """Raise AssertionError, with a reason, unless `got` is the mean over n ranks."""
    total = sum(gradient(other, name, lengths) for other in range(n))
    if torch.allclose(got, total / n):
        return
    mixed = torch.zeros_like(total)
    if len(set(lengths.values())) == 1:
        position = order(rank, lengths).index(name)
        for other in range(n):
            mixed += gradient(other, order(other, lengths)[position], lengths)
    hint = "it must be the sum over the ranks, divided by their number"
    if torch.allclose(got, total):
        hint = "that is the sum; divide by the number of ranks"
    elif torch.allclose(got, total / n**2):
        hint = "that is divided by the number of ranks twice"
    elif torch.equal(got, gradient(rank, name, lengths)):
        hint = "that is the rank's own; write the mean into the tensor itself"
    elif torch.allclose(got, mixed / n) or torch.allclose(got, mixed):
        hint = (
            "gradients of different names were added: on all ranks, make the calls in the same "
            "order, such as that of sorted(gradients)"
        )
    raise AssertionError(f"{where} is {got.tolist()}, not {(total / n).tolist()}; {hint}")
