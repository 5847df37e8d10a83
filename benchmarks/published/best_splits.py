"""Which split wins: ``python -m benchmarks.published.best_splits FILE.csv``, on nanotron's table.

Each row of that table is the best of many splits that were tried. So this predicts all splits of
the same batch on the same GPUs, and says where the published winner comes among those that fit.
"""

import itertools
import sys
from dataclasses import dataclass, replace

from benchmarks.published import tables
from benchmarks.published.families import nanotron
from benchmarks.published.shared.rows import UnpredictableError
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import PlanError

TENSOR, PIPELINE, MICRO = (1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 8)


@dataclass(frozen=True)
class Place:
    """Where the published winner comes.

    Attributes
    ----------
    what : str
        The published split.
    place, splits : int
        Its place by predicted time among the splits that fit, from 1 on.
    loss : float
        By what share of the best predicted time it is predicted to be slower.
    best : str
        The split that is predicted to be the fastest.
    """

    what: str
    place: int
    splits: int
    loss: float
    best: str


def splits(job):
    """Return the jobs that train the same batch on the same GPUs in other splits."""
    batch, found = job.data * job.micro_batch * job.micro_batches, []
    for tensor, pipeline, micro in itertools.product(TENSOR, PIPELINE, MICRO):
        data, rest = divmod(job.cluster.world_size, tensor * pipeline)
        if rest or not data or batch % (data * micro):
            continue
        program = replace(job.program, sequence_parallel=tensor > 1)
        try:
            found.append(replace(
                job, program=program, tensor=tensor, data=data, pipeline=pipeline,
                micro_batch=micro, micro_batches=batch // (data * micro),
            ))  # fmt: skip
        except ValueError:
            continue
    return found


def words(job):
    """Name a split."""
    return f"DP{job.data} TP{job.tensor} PP{job.pipeline} micro-batch {job.micro_batch}"


def place(job, step=simulate):
    """Return the `Place` of a job among all splits; `step` says what a job takes."""
    known = {job: step(job)}
    known |= {other: found for other in splits(job) if (found := _try(step, other)) is not None}
    memory = job.cluster.gpu.memory
    fit = [other for other in known if known[other].memory <= memory or other == job]
    order = sorted(fit, key=lambda other: known[other].seconds)
    loss = known[job].seconds / known[order[0]].seconds - 1
    return Place(words(job), order.index(job) + 1, len(order), loss, words(order[0]))


def _try(step, job):
    try:
        return step(job)
    except PlanError:
        return None


def main(arguments=None):
    """Print a line for each row of a table of best splits."""
    for path in arguments if arguments is not None else sys.argv[1:]:
        for row in tables.read_rows(path):
            try:
                found = place(nanotron.job_of(row)[0])
            except UnpredictableError as error:
                print(error)
                continue
            print(
                f"{row['params_B']}B on {row['gpus']} GPUs: {found.what} is place {found.place} of "
                f"{found.splits}, {found.loss:.0%} slower than {found.best}", flush=True,
            )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
