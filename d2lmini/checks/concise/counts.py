"""Checkers of evaluation on several ranks: which images, which counts."""

import math
from functools import partial
from itertools import pairwise

import torch
from torch import nn

from d2lmini.checks.concise.ranks import on_ranks
from d2lmini.checks.shared.results import number, whole_number
from d2lmini.checks.shared.solution import checker

_close = partial(math.isclose, rel_tol=1e-6)  # results computed in float32 are accepted
SIZES = (1, 2, 3, 10, 11, 12, 13)
WORLD_SIZES = (1, 2, 3)


@checker("my_images(num_images, rank, world_size)")
def check_my_images(my_images):
    """Check a function that distributes a test set over ranks.

    Parameters
    ----------
    my_images : callable
        ``my_images(num_images, rank, world_size)`` returning the indices of the images that this
        rank evaluates.

    Raises
    ------
    AssertionError
        If an image is evaluated twice or not at all, or the shares differ by two or more images.
    """
    for num_images in SIZES:
        for world_size in WORLD_SIZES:
            where = f"{num_images} images on {world_size} ranks"
            given = my_images.at(where)
            shares = [
                given.items(given(num_images, rank, world_size)) for rank in range(world_size)
            ]
            what = f"{where}: an index that my_images returns"
            shares = [[whole_number(index, what) for index in share] for share in shares]
            _check_shares(shares, num_images, where)
    print("my_images: passed")


def _check_shares(shares, num_images, where):
    seen = sorted(index for share in shares for index in share)
    outside = [index for index in seen if not 0 <= index < num_images]
    assert not outside, f"{where}: there is no image {outside[0]}"
    twice = sorted({a for a, b in pairwise(seen) if a == b})
    assert not twice, (
        f"{where}: image {twice[0]} is evaluated {seen.count(twice[0])} times. A sampler that "
        "pads, as DistributedSampler does, repeats images until all ranks have equally many; in "
        "an evaluation no rank has to wait for the others, so give them unequal shares"
    )
    missing = sorted(set(range(num_images)) - set(seen))
    assert not missing, (
        f"{where}: image {missing[0]} is evaluated by no rank. Leaving out the rest "
        "(drop_last=True) changes the accuracy too"
    )
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1, (
        f"{where}: the shares have {sizes} images; the largest decides how long it takes, and "
        "shares that differ by at most 1 are possible"
    )


@checker("total_accuracy(correct, evaluated)")
def check_total_accuracy(total_accuracy):
    """Check a function that combines the ranks' counts.

    Parameters
    ----------
    total_accuracy : callable
        ``total_accuracy(correct, evaluated)``, two lists with one count per rank, returning the
        accuracy on the whole test set.

    Raises
    ------
    AssertionError
        If the result is not the share of correct images; the message names the usual mistakes.
    """
    for correct, evaluated in (([3, 2], [4, 4]), ([4, 0], [4, 1]), ([1, 2, 0], [1, 3, 0])):
        wanted, where = sum(correct) / sum(evaluated), f"{correct} of {evaluated} correct"
        try:
            got = total_accuracy.at(where)(list(correct), list(evaluated))
        except AssertionError as error:
            if isinstance(error.__cause__, ZeroDivisionError):
                hint = "a rank may have no image at all; do not divide by its count"
                raise AssertionError(f"{error}: {hint}") from error.__cause__
            raise
        got = number(got, f"{where}: the accuracy that total_accuracy returns")
        if _close(got, wanted):
            continue
        ratios = [c / e for c, e in zip(correct, evaluated, strict=True) if e]
        hint = "add the counts up over the ranks, then divide once"
        if _close(got, sum(ratios) / len(ratios)):
            hint = f"that is the mean of the ranks' accuracies, which weighs ranks equally; {hint}"
        elif _close(got, ratios[0]):
            hint = f"that is rank 0's accuracy alone; {hint}"
        elif _close(got, sum(correct)):
            hint = f"that is the number of right answers; {hint}"
        elif _close(got, 100 * wanted):
            hint = "that is in per cent; return a share, from 0 to 1"
        raise AssertionError(f"{where}: the accuracy is {wanted:.4f}, not {got:.4f}: {hint}")
    print("total_accuracy: passed")


class _Counting(nn.Module):
    """The identity as a network, which counts the images that it sees."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def forward(self, X):
        self.sizes.append(len(X))
        return X


@checker("measure_accuracy(net, X, y, batch_size)")
def check_measure_accuracy(measure_accuracy):
    """Check an evaluation that is distributed over ranks.

    Parameters
    ----------
    measure_accuracy : callable
        ``measure_accuracy(net, X, y, batch_size)``, called on every rank with the whole test set,
        returning its accuracy on every rank. ``net(X)`` returns outputs; it is called with at most
        `batch_size` images at a time, and with each image on one rank only.

    Raises
    ------
    AssertionError
        If the accuracy is wrong, the ranks deadlock, or images are repeated.
    """
    for nprocs, num_images, batch_size in ((1, 10, 4), (2, 10, 2), (2, 11, 3), (3, 10, 3)):
        where = f"{num_images} images on {nprocs} rank(s), batches of {batch_size}"
        hits = [i < 2 or i == num_images - 1 for i in range(num_images)]
        given = measure_accuracy.at(where)
        nets = [_Counting() for _ in range(nprocs)]

        def program(rank, device, given=given, nets=nets, hits=hits, batch_size=batch_size):
            X = torch.eye(2).repeat(len(hits), 1)[: len(hits)].to(device)
            y = X.argmax(dim=1) ^ ~torch.tensor(hits).to(device)
            result = given(nets[rank], X, y.long(), batch_size)
            return number(result, f"the accuracy that measure_accuracy returns on rank {rank}")

        results = on_ranks(given, nprocs, program)
        _check_accuracies(results, nets, hits, batch_size, where)
    print("measure_accuracy: passed")


def _check_accuracies(results, nets, hits, batch_size, where):
    sizes = [size for net in nets for size in net.sizes]
    assert max(sizes, default=0) <= batch_size, (
        f"{where}: {max(sizes)} images went through the network at once"
    )
    every_rank_sees_all = len(nets) > 1 and all(sum(net.sizes) == len(hits) for net in nets)
    assert not every_rank_sees_all, f"{where}: every rank evaluates all images; share them out"
    assert sum(sizes) <= len(hits), (
        f"{where}: {sum(sizes)} images were evaluated. DistributedSampler repeats images until all "
        "ranks have equally many; give the ranks unequal shares: X[rank::world_size]"
    )
    assert sum(sizes) == len(hits), (
        f"{where}: only {sum(sizes)} images were evaluated; none may be left out"
    )
    wanted = sum(hits) / len(hits)
    for rank, got in enumerate(results):
        if math.isclose(got, wanted, rel_tol=1e-5):
            continue
        hint = (
            "all ranks must get the sum over the ranks"
            if any(math.isclose(other, wanted, rel_tol=1e-5) for other in results)
            else "add up hits and images, over batches and ranks, and divide once; a mean of "
            "means weighs small batches and small shares like large ones"
        )
        raise AssertionError(
            f"{where}: the accuracy is {wanted:.4f}, not {got:.4f} as on rank {rank}: {hint}"
        )
