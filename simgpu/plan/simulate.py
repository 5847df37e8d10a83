"""The time and the memory of a job's step: folded ranks, a few layers, micro-batches and stages.

A step has many equal layers, micro-batches and stages, and its time grows by the same for each
further one. So it is simulated with two small numbers of each, and extended in a straight line.
Tests compare this with steps that are simulated in full.
"""

import itertools
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import fmean

from torch.utils.checkpoint import set_checkpoint_early_stop

import simgpu as sim
from simgpu.network.cluster import Cluster
from simgpu.plan.step.job import PlanError
from simgpu.plan.step.program import step
from simgpu.run.shares import CAUSES, by_rank, shares

LAYERS = 2, 4  # of each stage that are simulated
STAGES = 2, 4
ROOMY = 2**44  # bytes: that a job does not fit is seen from its peak


@dataclass(frozen=True)
class Simulated:
    """What a step took.

    Attributes
    ----------
    seconds : float
        Of the last rank to be done.
    memory : float
        The highest peak of a rank, in bytes, of what is allocated.
    causes : dict
        Seconds of the step by cause (`simgpu.run.shares.CAUSES`), the mean over the ranks; they add
        up to `seconds`.
    """

    seconds: float
    memory: float
    causes: dict = field(default_factory=dict, compare=False)


def run(job):
    """Simulate a step in full, on one rank of each pipeline stage."""
    cluster, size = job.cluster, job.tensor * job.data
    # PyTorch stops once all is there that the backward pass needs. The switch is one for all ranks.
    stops = set_checkpoint_early_stop(job.program.recompute != "all")
    try:
        with stops:
            found = sim.spawn(
                step, (job,), cluster.world_size, gpu=replace(cluster.gpu, memory=ROOMY),
                link=cluster.link, nodes=cluster.nodes, network=cluster.network, numerics=False,
                ranks=[size * stage for stage in range(job.pipeline)],
            )  # fmt: skip
    except (ValueError, RuntimeError, AssertionError) as error:
        raise PlanError(f"its program does not run: {error or type(error).__name__}") from None
    start, end = min(found)[0], max(end for _, end, _ in found)
    return Simulated(
        end - start,
        max(memory for *_, memory in found),
        causes_between(job.cluster.gpu, start, end),
    )


def causes_between(gpu, start, end):
    """Return the seconds of each cause between two times, the mean over the ranks."""
    each = [shares(spans, gpu, start, end) for spans in by_rank(sim.trace()).values()]
    return {cause: (end - start) * fmean(one[cause] for one in each) for cause in CAUSES}


@lru_cache(maxsize=1024)
def simulate(job):
    """Return what a step of a job takes, extended from a small part of it."""
    layers = _sizes(job.model.layers // job.stages, LAYERS)
    stages = _sizes(job.pipeline, STAGES) if _can_shrink(job) else [job.pipeline]
    counts = _sizes(job.micro_batches, (stages[-1], 2 * stages[-1]))
    grid = itertools.product(stages, counts, layers)
    found = {sizes: run(_reduced(job, *sizes)) for sizes in grid}
    wanted = job.pipeline, job.micro_batches, job.model.layers // job.stages
    # Memory does not grow with micro-batches once the pipeline is full.
    filled = {sizes: f.memory for sizes, f in found.items() if sizes[1] == counts[-1]}
    memory = _extend(filled, (stages, [counts[-1]], layers), wanted)
    seconds = {sizes: f.seconds for sizes, f in found.items()}
    seconds = _extend(seconds, (stages, counts, layers), wanted)
    return Simulated(seconds, memory, _causes_of(found, (stages, counts, layers), wanted, seconds))


def _causes_of(found, axes, wanted, seconds):
    """Extend each cause; one that would be negative is none, and the others give way."""
    causes = {
        cause: max(_extend({k: f.causes[cause] for k, f in found.items()}, axes, wanted), 0.0)
        for cause in CAUSES
    }
    total = sum(causes.values())
    return {cause: value * seconds / total for cause, value in causes.items()}


def _sizes(whole, few):
    """Return what to simulate: two sizes, or the whole one if it is not larger."""
    return [whole] if whole <= few[1] else list(few)


def _can_shrink(job):
    """Say whether fewer stages fill nodes as the whole job does."""
    size = job.tensor * job.data
    return size % job.cluster.gpus_per_node == 0


def _reduced(job, stages, micro_batches, layers):
    model = replace(job.model, layers=layers * stages * job.program.chunks)
    cluster = job.cluster
    if stages != job.pipeline:
        cluster = _part(cluster, job.tensor * job.data * stages)
    return replace(job, model=model, micro_batches=micro_batches, pipeline=stages, cluster=cluster)


def _part(cluster, gpus) -> Cluster:
    nodes = gpus // cluster.gpus_per_node
    name = f"{nodes} x {cluster.gpus_per_node} {cluster.gpu.name} on {cluster.link.name}"
    return replace(cluster, nodes=nodes, name=name)


def _extend(values, axes, wanted):
    """Go on in a straight line along each axis; `values` has a number for each point."""
    if not axes:
        return values[()]
    sizes, *others = axes
    rows = [
        _extend({k[1:]: v for k, v in values.items() if k[0] == n}, others, wanted[1:])
        for n in sizes
    ]
    if len(sizes) == 1:
        return rows[0]
    return rows[0] + (wanted[0] - sizes[0]) * (rows[1] - rows[0]) / (sizes[1] - sizes[0])
