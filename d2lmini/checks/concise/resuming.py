"""Checker of what is left of an epoch when a job starts again in the middle of it."""

from torch.utils.data import DistributedSampler

from d2lmini.checks.shared.results import whole_number
from d2lmini.checks.shared.solution import checker

RANKS, EXAMPLES, BATCH_SIZE = 2, 23, 4
CASES = ((0, 0, 2), (0, 2, 2), (1, 0, 3), (1, 2, 2), (2, 1, 5))  # epoch, done batches, epochs


@checker("rest(sampler, batch_size, epoch, done, epochs)", may_change=["sampler"])
def check_rest(rest):
    """Check which batches are left for a rank when a job resumes in the middle of an epoch.

    The function with the mistake of accelerate#4071 is refused with that name.

    Parameters
    ----------
    rest : callable
        ``rest(sampler, batch_size, epoch, done, epochs)``, yielding the batches that are left when
        `done` batches of `epoch` are done, up to the end of the last of `epochs` epochs: tensors or
        lists of what the `DistributedSampler` returns. Epochs count from 0.

    Raises
    ------
    AssertionError
        If they are not those of a job that never stopped; the message names the usual mistakes.
    """
    for epoch, done, epochs in CASES:
        where = f"epoch {epoch} of 0 to {epochs - 1}, {done} batches done"
        given = rest.at(where)
        for rank in range(RANKS):
            found = given.items(given(_sampler(rank), BATCH_SIZE, epoch, done, epochs))
            got = [
                [whole_number(i, f"{where}: an index in a batch") for i in given.items(batch)]
                for batch in found
            ]
            right = _epoch(rank, epoch)[done:] + _epochs(rank, range(epoch + 1, epochs))
            if got != right:
                hint = _explain(got, rank, epoch, done, epochs)
                raise AssertionError(
                    f"{where}, rank {rank}: {len(right)} batches are left, the first of them "
                    f"{right[0]}, but rest yields {len(got)}"
                    f"{f', the first {got[0]}' if got else ''}. {hint}"
                )
    print("rest: passed")


def _sampler(rank):
    return DistributedSampler(range(EXAMPLES), num_replicas=RANKS, rank=rank)


def _epoch(rank, epoch):
    """Return the batches of a whole epoch."""
    sampler = _sampler(rank)
    sampler.set_epoch(epoch)
    order = list(sampler)
    return [order[i : i + BATCH_SIZE] for i in range(0, len(order), BATCH_SIZE)]


def _epochs(rank, epochs):
    return [batch for epoch in epochs for batch in _epoch(rank, epoch)]


def _explain(got, rank, epoch, done, epochs):
    following = range(epoch + 1, epochs)
    skipped = [batch for i in range(epoch, epochs) for batch in _epoch(rank, i)[done:]]
    from_first = _epochs(rank, range(epochs - epoch))
    if got == from_first[done:] or got == _epoch(rank, 0)[done:] + _epochs(rank, following):
        return (
            "That is accelerate#4071: the order is that of epoch 0 again, so that some examples of "
            f"epoch {epoch} come twice, and others never. Shuffle for the epoch that was stopped"
        )
    if got == skipped:
        return "Batches were done in the first of these epochs only: skip none in the next ones"
    if got == _epochs(rank, range(epoch, epochs)):
        return "The batches that are done come once more: skip them"
    if got == _epoch(rank, epoch)[done:]:
        return "The epochs that follow are missing"
    if got == _epoch(rank, epoch)[done:] * (epochs - epoch) or got == (
        _epoch(rank, epoch)[done:] + _epoch(rank, epoch) * len(following)
    ):
        return "All epochs have the same order: call set_epoch in each"
    return "They must be the batches of a job that never stopped, in its order"
