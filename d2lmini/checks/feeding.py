"""Checkers for the exercises of the chapter on feeding the GPUs: workers, examples, seeds."""

import itertools
import math

from d2lmini.checks.shared.results import whole_number
from d2lmini.checks.shared.solution import checker

# Images per second of all ranks of a node, seconds per image on a core, ranks, cores.
NODES = (
    (1000.0, 0.004, 4, 8),
    (900.0, 0.005, 1, 8),
    (22_000.0, 0.003, 8, 128),
    (1000.0, 0.004, 4, 7),
    (3000.0, 0.005, 8, 16),
    (20_000.0, 0.004, 8, 64),
)


@checker("workers_needed(images_per_second, seconds_per_image, ranks, cores)")
def check_workers_needed(workers_needed):
    """Check a function that says how many workers the loader of each rank needs.

    Parameters
    ----------
    workers_needed : callable
        ``workers_needed(images_per_second, seconds_per_image, ranks, cores)``, returning the number
        of workers of each rank, or None if the node has too few cores. All ranks of the node
        together eat `images_per_second`, an image costs a core `seconds_per_image`, and each rank
        needs one of the node's `cores` for itself.

    Raises
    ------
    AssertionError
        If it returns another number; the message names the usual mistakes.
    """
    for node in NODES:
        rate, seconds, ranks, cores = node
        where = f"{rate:g} images/s, {seconds:g} s an image, {ranks} ranks, {cores} cores"
        got, right = workers_needed.at(where)(*node), workers_of(*node)
        if got is not None:
            got = whole_number(got, f"{where}: what workers_needed returns")
        if got != right:
            raise AssertionError(
                f"{where}: {right} is right, not {got}; {_explain_workers(got, node)}"
            )
    print("workers_needed: passed")


def workers_of(rate, seconds, ranks, cores):
    """Return the right number; see `check_workers_needed`."""
    workers = math.ceil(rate * seconds / ranks - 1e-9)
    return workers if ranks * (workers + 1) <= cores else None


def _explain_workers(got, node):
    rate, seconds, ranks, cores = node
    busy = rate * seconds
    workers = math.ceil(busy / ranks - 1e-9)
    if got is None:
        return f"{ranks} x {workers} workers and {ranks} ranks fit on {cores} cores"
    if got == workers and ranks * workers <= cores:
        return f"the {ranks} ranks themselves need a core each, beside their workers"
    if got == workers:
        return f"{ranks} x {workers} workers are more than the node's cores"
    if got == math.ceil(busy - 1e-9):
        return "that is for all ranks together; each has a loader of its own"
    if got == math.floor(busy / ranks):
        return "round up: with fewer workers the GPUs wait"
    return "the cores that are busy are images per second times seconds per image"


# Examples, ranks, batch of a rank, drop_last of the sampler, drop_last of the loader.
EPOCHS = (
    (16, 4, 2, False, False),
    (11, 4, 1, False, False),
    (11, 4, 1, True, False),
    (17, 4, 2, False, True),
    (22, 4, 4, True, True),
    (15, 4, 2, False, True),
    (101, 8, 4, False, True),
)


@checker("never_and_twice(n, k, batch_size, sampler_drops, loader_drops)")
def check_never_and_twice(never_and_twice):
    """Check a function that counts the examples that an epoch leaves out or repeats.

    Parameters
    ----------
    never_and_twice : callable
        ``never_and_twice(n, k, batch_size, sampler_drops, loader_drops)``, returning how many of
        `n` examples the `k` ranks never see in an epoch, and how many twice. Each rank takes
        batches of `batch_size` from a `DistributedSampler` with ``drop_last=sampler_drops``, by a
        `DataLoader` with ``drop_last=loader_drops``.

    Raises
    ------
    AssertionError
        If it returns other numbers; the message names the usual mistakes.
    """
    for epoch in EPOCHS:
        n, k, batch_size, *drops = epoch
        where = f"{n} examples, {k} ranks, batches of {batch_size}, drop_last {drops}"
        given = never_and_twice.at(where)
        got = tuple(
            whole_number(count, f"{where}: a number that never_and_twice returns")
            for count in given.items(given(*epoch), 2)
        )
        right = counts_of(*epoch)
        if got != right:
            raise AssertionError(
                f"{where}: {right} is right, not {got}; {_explain_counts(got, epoch)}"
            )
    print("never_and_twice: passed")


def counts_of(n, k, batch_size, sampler_drops, loader_drops):
    """Return the right numbers; see `check_never_and_twice`."""
    share = n // k if sampler_drops else -(-n // k)
    if loader_drops:
        share -= share % batch_size
    return max(n - share * k, 0), max(share * k - n, 0)


def _explain_counts(got, epoch):
    n, k, batch_size, sampler_drops, loader_drops = epoch
    right = counts_of(*epoch)
    if got == right[::-1]:
        return "first those that nobody sees, then those seen twice"
    if loader_drops and got == counts_of(n, k, batch_size, sampler_drops, False):
        return "the loader's drop_last leaves out the last, incomplete batch of every rank"
    if loader_drops and got[0] == n % (k * batch_size) and not got[1]:
        return "each rank drops from its own share, which may have been padded"
    if got == counts_of(n, k, batch_size, not sampler_drops, loader_drops):
        return "without drop_last the sampler repeats examples until all shares are equally long"
    return "count what one rank takes, times k, and compare with n"


# The order of an epoch, how many examples are done, ranks.
INTERRUPTED = ((12, 0, 2), (12, 4, 2), (24, 8, 4), (24, 16, 2), (13, 6, 3))


@checker("rest_of_epoch(order, done, k, rank)")
def check_rest_of_epoch(rest_of_epoch):
    """Check a function that says which examples are left for a rank of a resumed job.

    Parameters
    ----------
    rest_of_epoch : callable
        ``rest_of_epoch(order, done, k, rank)``, returning a list: what a rank of `k` still takes of
        the epoch's `order` (a list of indices, the same on all ranks), if all ranks of the job
        before, however many they were, have together trained on the first `done`.

    Raises
    ------
    AssertionError
        If an example is left out or repeated, or the ranks together take them in another order.
    """
    for n, done, k in INTERRUPTED:
        order = [7 * i % n if n % 7 else i for i in range(n)]
        where = f"{n} examples, {done} of them done, {k} ranks"
        given = rest_of_epoch.at(where)
        ranks = [given.items(given(list(order), done, k, rank)) for rank in range(k)]
        right = [order[done:][rank::k] for rank in range(k)]
        if ranks != right:
            raise AssertionError(f"{where}: {_explain_rest(ranks, order, done, k)}")
    print("rest_of_epoch: passed")


def _explain_rest(ranks, order, done, k):
    left, taken = order[done:], sorted(itertools.chain(*ranks))
    for count, hint in (
        (done * k, "`done` counts the examples of all ranks together, not those of one"),
        (done // k, "`done` counts all ranks' examples; you have skipped too few"),
        (0, "the job begins the epoch again: what is done comes twice"),
    ):
        if done and taken == sorted(order[count:]):
            return hint
    if taken == sorted(left * k):
        return "every rank takes all that is left; each example belongs to one rank"
    if len(taken) > len(left) and set(taken) == set(left):
        return "some examples come twice; let the shares be unequal"
    if taken != sorted(left):
        missing = sorted(set(left) - set(taken))
        return f"of the examples that are left, the ranks never take {missing[:5]}"
    return (
        "each example comes once, but the ranks take them in another order: give each step the "
        "examples that it would have had, order[done + rank], order[done + rank + k], ..."
    )


SEEDS = 3, 4, 9, 8  # jobs, epochs, ranks, workers that are tried
LARGEST = 2**63 - 1  # that torch.Generator takes in all releases


@checker("seed_of(job, epoch, rank, worker)")
def check_seed_of(seed_of):
    """Check a function that gives each worker of each rank a seed of its own in each epoch.

    Parameters
    ----------
    seed_of : callable
        ``seed_of(job, epoch, rank, worker)``, returning a whole number from 0 to 2**63 - 1, the
        same for the same arguments. `job` is the seed of the whole job.

    Raises
    ------
    AssertionError
        If two workers share a seed, or a number is of another kind; the message names both.
    """
    names, owner = ("job", "epoch", "rank", "worker"), {}
    for who in itertools.product(*map(range, SEEDS)):
        where = ", ".join(f"{name} {number}" for name, number in zip(names, who, strict=True))
        given = seed_of.at(where)
        seed = whole_number(given(*who), f"{where}: what seed_of returns")
        assert 0 <= seed <= LARGEST, f"{where}: {seed} is not from 0 to 2**63 - 1"
        assert whole_number(given(*who), where) == seed, (
            f"{where}: another call returns another seed, so the job cannot be repeated"
        )
        if seed in owner:
            raise AssertionError(f"{where}: has the seed {seed} of {_both(owner[seed], who)}")
        owner[seed] = who
    print("seed_of: passed")


def _both(first, second):
    """Say who has the same seed already, and why that happens."""
    names = "job", "epoch", "rank", "worker"
    differ = [n for n, a, b in zip(names, first, second, strict=True) if a != b]
    said = ", ".join(f"{name} {number}" for name, number in zip(names, first, strict=True))
    if len(differ) == 1:
        return f"{said}: the {differ[0]} makes no difference"
    return f"{said}: sums and products of small numbers coincide; keep the four apart"
