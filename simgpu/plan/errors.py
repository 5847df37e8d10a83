"""How wrong plans are: which kind a plan's step is of, and what else published rows say.

The numbers follow from the record ``records/published/predictions.json`` by the functions of
``benchmarks/published/orders.py``; the sources are on the page *How Far to Trust the Clock*. A test
compares them. Rows that a constant was fitted to are left out. The bands of times are in
`simgpu.bands`.
"""

from simgpu.bands.kinds import kind_of

SOURCE = "published steps"
# Published peaks of memory of jobs with tensor parallelism or pipelines: the highest multiple.
MEMORY_SPLIT = 1.4
# If one of two plans for the same job is predicted to be slower by this share or more, it was
# slower in nineteen of twenty published pairs (in steps of 5 %). None has context parallelism.
COMPARED = 0.15
# The share of pairs in that order, of those predicted to differ by `COMPARED` to twice as much.
ORDER = 0.9
UNKNOWN = "no published pair of plans with context parallelism says how well it is compared"


def kind_of_job(job, causes):
    """Return the `Kind` of a job's step, given its seconds by cause."""
    return kind_of(
        job.cluster, job.dtype, causes, job.program.compiled, bool(job.model.experts),
        job.context > 1,
    )  # fmt: skip


def is_compared(plan):
    """Return whether published pairs say how well such plans are ordered."""
    return plan.cp == 1
