"""Checkers for the exercises of the chapter on `DistributedDataParallel`."""

import math
from functools import partial
from itertools import pairwise

from d2lmini.checks._results import number, whole_number
from d2lmini.checks._solution import checker
from d2lmini.checks.ddp import check_measure_accuracy, check_update  # noqa: F401

_close = partial(math.isclose, rel_tol=1e-6)  # what was computed in float32 is right, too

SIZES = (1, 2, 3, 10, 11, 12, 13)
WORLD_SIZES = (1, 2, 3)


@checker("my_images(num_images, rank, world_size)")
def check_my_images(my_images):
    """Check a function that shares a test set out to ranks.

    Parameters
    ----------
    my_images : callable
        ``my_images(num_images, rank, world_size)`` returning the indices of the images that this
        rank evaluates.

    Raises
    ------
    AssertionError
        If an image is evaluated twice or not at all, or a rank has two more than another.
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
    """Check a function that puts the ranks' counts together.

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
