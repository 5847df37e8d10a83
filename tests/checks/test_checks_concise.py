"""The checkers of the concise chapter accept right solutions and name what is wrong with others."""

import torch
from support.samples.solutions import make_tests, returns_nothing
from torch.utils.data import DistributedSampler

from d2lmini.checks import concise as checks

RIGHT, WRONG = {}, {}


def by_stride(num_images, rank, world_size):
    return torch.arange(num_images)[rank::world_size]


def by_blocks(num_images, rank, world_size):
    return torch.arange(num_images).tensor_split(world_size)[rank]


def by_sampler(num_images, rank, world_size, **options):
    place = {"num_replicas": world_size, "rank": rank}
    return list(DistributedSampler(range(num_images), shuffle=False, **place, **options))


RIGHT["my_images"] = by_stride, by_blocks
WRONG["my_images"] = {
    "evaluated 2 times. A sampler that pads": by_sampler,
    "evaluated by no rank": lambda *a: by_sampler(*a, drop_last=True),
    "there is no image": lambda n, r, w: range(r, n + w, w),
    "shares that differ by at most 1": lambda n, r, w: range(n) if r == 0 else [],
    "my_images returned None": returns_nothing,
    "returned a int, 1; a list is needed": lambda n, r, w: 1,
    "but it is a bool, True": lambda n, r, w: [i % w == r for i in range(n)],
    "must be a whole number, but it is 0.5": lambda n, r, w: [0.5],
}


def mean_of_accuracies(correct, evaluated):
    ratios = [c / e for c, e in zip(correct, evaluated, strict=True) if e]
    return sum(ratios) / len(ratios)


RIGHT["total_accuracy"] = (
    lambda correct, evaluated: sum(correct) / sum(evaluated),
    lambda correct, evaluated: torch.tensor(correct).sum() / torch.tensor(evaluated).sum(),
)
WRONG["total_accuracy"] = {
    "mean of the ranks' accuracies": mean_of_accuracies,
    "rank 0's accuracy alone": lambda correct, evaluated: correct[0] / evaluated[0],
    "do not divide by its count": lambda correct, evaluated: (
        sum(c / e * e for c, e in zip(correct, evaluated, strict=True)) / sum(evaluated)
    ),
    "then divide once": lambda correct, evaluated: 0.5,
    "number of right answers": lambda correct, evaluated: sum(correct),
    "in per cent": lambda correct, evaluated: 100 * sum(correct) / sum(evaluated),
    "must be a number, but it is None": returns_nothing,
    "changed `correct`: it has 0": lambda correct, evaluated: (
        sum(correct.pop() for _ in evaluated) / sum(evaluated)
    ),
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
