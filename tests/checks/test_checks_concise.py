"""The checkers of the concise chapter accept right solutions and name what is wrong with others."""

import torch
from support.samples.solutions import make_tests, returns_nothing
from torch.utils.data import DataLoader, DistributedSampler

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


def batches_of(sampler, batch_size, epoch):
    sampler.set_epoch(epoch)
    return torch.tensor(list(sampler)).split(batch_size)


def rest(sampler, batch_size, epoch, done, epochs):
    for i in range(epoch, epochs):
        yield from batches_of(sampler, batch_size, i)[done if i == epoch else 0 :]


def rest_by_loaders(sampler, batch_size, epoch, done, epochs):
    found = []
    for i in range(epoch, epochs):
        sampler.set_epoch(i)
        found += [batch.tolist() for batch in DataLoader(range(23), batch_size, sampler=sampler)]
    return found[done:]


def rest_from_epoch_0(sampler, batch_size, epoch, done, epochs):
    sampler.set_epoch(epoch)
    for i in range(epochs - epoch):
        yield from batches_of(sampler, batch_size, i)[done if i == 0 else 0 :]


def rest_begins_in_epoch_0(sampler, batch_size, epoch, done, epochs):
    yield from batches_of(sampler, batch_size, 0)[done:]
    yield from rest(sampler, batch_size, epoch + 1, 0, epochs)


def rest_skips_always(sampler, batch_size, epoch, done, epochs):
    for i in range(epoch, epochs):
        yield from batches_of(sampler, batch_size, i)[done:]


def rest_in_one_order(sampler, batch_size, epoch, done, epochs):
    for i in range(epoch, epochs):
        yield from batches_of(sampler, batch_size, epoch)[done if i == epoch else 0 :]


RIGHT["rest"] = rest, rest_by_loaders
WRONG["rest"] = {
    "^epoch 1 .* That is accelerate#4071: .* some examples of epoch 1 come twice": (
        rest_from_epoch_0,
        rest_begins_in_epoch_0,
    ),
    "skip none in the next ones": rest_skips_always,
    "come once more: skip them": lambda s, size, epoch, done, epochs: rest(
        s, size, epoch, 0, epochs
    ),
    "The epochs that follow are missing": lambda s, size, epoch, done, epochs: batches_of(
        s, size, epoch
    )[done:],
    "call set_epoch in each": rest_in_one_order,
    "a job that never stopped": lambda s, size, epoch, done, epochs: rest(
        s, size + 1, epoch, done, epochs
    ),
    "rest returned None": returns_nothing,
    "returned a int, 7; a list is needed": lambda *arguments: [7],
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
