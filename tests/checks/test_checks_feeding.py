"""The checkers of the chapter on feeding accept right solutions and name what is wrong."""

import itertools
import math
from collections import Counter

import pytest
from support.samples.solutions import make_tests, returns_nothing
from torch.utils.data import DataLoader, DistributedSampler

from d2lmini.checks import feeding as checks

RIGHT, WRONG = {}, {}

RIGHT["workers_needed"] = checks.workers_of
WRONG["workers_needed"] = {
    "the 4 ranks themselves need a core": lambda rate, seconds, ranks, cores: (
        math.ceil(rate * seconds / ranks) if rate * seconds <= cores else None
    ),
    "are more than the node's cores": lambda rate, seconds, ranks, cores: (
        checks.workers_of(rate, seconds, ranks, cores)
        if cores != 64
        else math.ceil(rate * seconds / ranks)
    ),
    "that is for all ranks together": lambda rate, seconds, ranks, cores: math.ceil(rate * seconds),
    "round up": lambda rate, seconds, ranks, cores: int(rate * seconds / ranks),
    "4 x 1 workers and 4 ranks fit on 8 cores": returns_nothing,
    "images per second times seconds per image": lambda rate, seconds, ranks, cores: cores // ranks,
    "must be a whole number": lambda rate, seconds, ranks, cores: rate * seconds / ranks + 0.5,
}

RIGHT["never_and_twice"] = checks.counts_of
WRONG["never_and_twice"] = {
    "first those that nobody sees": lambda *epoch: checks.counts_of(*epoch)[::-1],
    "incomplete batch of every rank": lambda n, k, b, short, full: checks.counts_of(
        n, k, b, short, False
    ),
    "the sampler repeats examples": lambda n, k, b, short, full: checks.counts_of(
        n, k, b, True, full
    ),
    "which may have been padded": lambda n, k, b, short, full: (
        (n % (k * b), 0) if full else checks.counts_of(n, k, b, short, full)
    ),
    "times k, and compare with n": lambda n, k, b, short, full: (n, n),
    "a list of 2 is needed": lambda *epoch: 0,
}


@pytest.mark.parametrize("epoch", checks.EPOCHS)
def test_the_counts_are_those_of_pytorch(epoch):
    n, k, batch_size, sampler_drops, loader_drops = epoch
    seen = Counter()
    for rank in range(k):
        sampler = DistributedSampler(range(n), k, rank, seed=3, drop_last=sampler_drops)
        for batch in DataLoader(range(n), batch_size, sampler=sampler, drop_last=loader_drops):
            seen.update(batch.tolist())
    found = sum(not seen[i] for i in range(n)), sum(seen[i] == 2 for i in range(n))
    assert found == checks.counts_of(*epoch)


RIGHT["rest_of_epoch"] = lambda order, done, k, rank: order[done:][rank::k]
WRONG["rest_of_epoch"] = {
    "begins the epoch again": lambda order, done, k, rank: order[rank::k],
    "not those of one": lambda order, done, k, rank: order[done * k :][rank::k],
    "skipped too few": lambda order, done, k, rank: order[done // k :][rank::k],
    "every rank takes all": lambda order, done, k, rank: order[done:],
    "in another order": lambda order, done, k, rank: sorted(order[done:])[rank::k],
    "let the shares be unequal": lambda order, done, k, rank: (
        order[done:] + order[done:][: -(len(order) - done) % k]
    )[rank::k],
    "never take": lambda order, done, k, rank: order[done + 1 :][rank::k],
    "a list is needed": returns_nothing,
}

counter = itertools.count()
RIGHT["seed_of"] = lambda job, epoch, rank, worker: ((job * 99 + epoch) * 99 + rank) * 99 + worker
WRONG["seed_of"] = {
    "coincide; keep the four apart": lambda job, epoch, rank, worker: job + epoch + rank + worker,
    "the epoch makes no difference": lambda job, epoch, rank, worker: (
        job * 999 + rank * 99 + worker
    ),
    "another call returns another seed": lambda *who: next(counter),
    "is not from 0": lambda *who: -1,
    "must be a number": returns_nothing,
}

test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
