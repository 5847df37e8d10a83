"""The time and the memory of a job's step: folded ranks, a few layers, micro-batches and stages.

A step has many equal layers, micro-batches and stages, and each further one adds the same time. So
steps with two small numbers of each are simulated, and extrapolated linearly. The
layers of a model that a Python file makes are not known: all of them run.
Stages and micro-batches add up: a pipeline of p stages and m micro-batches takes the time of
p + m - 1 of them, so more of both at once are not simulated.
Tests compare this with steps that are simulated in full. Interleaved on 8 and 16 ranks, with 2 to 8
stages each, extended steps take 1 to 3 % less, and ranks wait in up to 3 % less of the time.
"""

import warnings
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import fmean
from types import SimpleNamespace

from torch.utils.checkpoint import set_checkpoint_early_stop

import simgpu as sim
from simgpu.clock.current import find_device
from simgpu.network.cluster import Cluster, build_cluster
from simgpu.plan import user_model
from simgpu.plan.step import program
from simgpu.plan.step.job import PlanError
from simgpu.ranks.run_ranks import run_ranks
from simgpu.run.causes.shares import CAUSES, WAITING, by_rank, shares

LAYERS = 2, 4  # of each stage that are simulated
SHARDED_LAYERS = 6, 8  # with FSDP, which has up to three of them in memory at a time
STAGES = 2, 4
ROOMY = 2**44  # bytes: that a job does not fit is seen from its peak
far = SimpleNamespace(done=0, all=None)  # how many parts of the present step are simulated


@dataclass(frozen=True)
class Simulated:
    """What a step took.

    Attributes
    ----------
    seconds : float
        Of the last rank to be done.
    memory, reserved : float
        The highest peak of a rank, in bytes: of what is allocated, and of the segments that
        PyTorch's caching allocator would hold for it.
    causes : dict
        Seconds of the step by cause (`simgpu.run.causes.shares.CAUSES`), the mean over the ranks;
        they add up to `seconds`.
    peaks : tuple
        Of each rank that ran what `Peaks.take` returns.
    context_bytes : tuple
        The least and the most bytes of `simgpu.network.nccl_memory`, of the rank with the most.
    flops : float
        Of the model, on all GPUs, without recomputation.
    """

    seconds: float
    memory: float
    reserved: float = 0.0
    causes: dict = field(default_factory=dict, compare=False)
    peaks: tuple = ()
    context_bytes: tuple = (0, 0)
    flops: float = 0.0


def run(job):
    """Simulate a step in full, on one rank of each pipeline stage."""
    cluster, size = job.cluster, job.tensor * job.data
    # By default PyTorch recomputes up to the last input that is needed. The switch is global.
    stops = set_checkpoint_early_stop(job.program.recompute != "all")
    has_sizes = job.model.has_sizes
    step = program.step if has_sizes else user_model.step
    failures = (ValueError, RuntimeError, AssertionError, *(() if has_sizes else (TypeError,)))
    try:
        with stops, warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
            # The first rank of a stage has the most: where shards are uneven, others have less.
            results = run_ranks(
                _with_context_bytes(step), (job,), _roomy(cluster), numerics=False,
                ranks=[size * stage for stage in range(job.pipeline)], alike=True,
            )  # fmt: skip
    except failures as error:
        raise PlanError(f"the model does not run: {error or type(error).__name__}") from None
    results, context_bytes = zip(*results, strict=True)
    starts, ends, *peaks = zip(*results, strict=True)
    start, end = min(starts), max(ends)
    causes = causes_between(cluster.gpu, start, end)
    *parts, reserved = map(max, peaks)
    peaks = tuple(zip(*peaks, strict=True))
    flops = job.model.flops(job.sequences) if has_sizes else _count_flops(start, end, cluster)
    return Simulated(
        end - start, max(parts), reserved, causes, peaks, max(context_bytes), flops
    )  # fmt: skip


def _roomy(cluster):
    gpu = replace(cluster.gpu, memory=ROOMY)
    return build_cluster(cluster.world_size, gpu, cluster.link, cluster.nodes, cluster.network)


def _with_context_bytes(step):
    """Return a function that also returns what no allocator counts on a rank's device."""

    def run(rank, job):
        return step(rank, job), find_device().connections.num_bytes()

    return run


def _count_flops(start, end, cluster):
    """Return the FLOPs of all GPUs between two times: as many as those of the rank that ran."""
    spans = (s for s in sim.trace() if s.engine == "compute" and start <= s.start <= end)
    return sum(s.flops for s in spans) * cluster.world_size


def causes_between(gpu, start, end):
    """Return the seconds of each cause between two times, the mean over the ranks."""
    each = [shares(spans, gpu, start, end) for spans in by_rank(sim.trace()).values()]
    return {cause: (end - start) * fmean(one[cause] for one in each) for cause in CAUSES}


def parts() -> tuple:
    """Return how many parts of the present step are simulated, and how many it has."""
    return far.done, far.all


@lru_cache(maxsize=1024)
def simulate(job):
    """Return what a step of a job takes, extended from a small part of it."""
    layers = _sizes(job.model.layers // job.stages, _few_layers(job))
    stages = _sizes(job.pipeline, STAGES) if _can_shrink(job) else [job.pipeline]
    few = [n * stages[-1] for n in _fillings(job)]
    counts = _sizes(job.micro_batches, few)
    # So few never keep all stages busy at once, and their time is not on the line of more.
    if job.micro_batches <= max(few[1], job.pipeline - 1):
        stages, counts = [job.pipeline], [job.micro_batches]
    if job.pipeline == 1:  # two have the peak of more: gradients of the first while the second runs
        counts.reverse()
    axes, done = (stages, counts, layers), {}
    points = [(*pair, n) for pair in _corner(stages, counts) for n in layers]
    far.done, far.all = 0, len(points)
    for far.done, point in enumerate(points):
        done[point] = run(_reduced(job, *point))
    wanted = job.pipeline, job.micro_batches, job.model.layers // job.stages
    seconds = _extend({sizes: part.seconds for sizes, part in done.items()}, axes, wanted)
    memory, reserved = _memory_of(job, done, axes, wanted)
    causes = _causes_of(done, axes, wanted, seconds)
    context_bytes = max(part.context_bytes for part in done.values())
    flops = _flops(job, done[stages[0], counts[0], layers[0]], counts[0])
    return Simulated(seconds, memory, reserved, causes, (), context_bytes, flops)


def _memory_of(job, parts, axes, wanted):
    """Return the highest peaks of a rank: of what is allocated, and of what is reserved."""
    # PyTorch's pipelines have a buffer for each message that a micro-batch receives.
    few = wanted[0], axes[1][0], wanted[2]
    filled = wanted if job.pipeline > 1 else few
    *kinds, last = range(len(next(iter(parts.values())).peaks[0]))

    def highest(kind, wanted):
        # The first rank keeps most micro-batches, and the last has the logits; others have less.
        return max(
            _extend({sizes: part.peaks[rank][kind] for sizes, part in parts.items()}, axes, wanted)
            for rank in (0, -1)
        )

    memory, of_few = (max(highest(kind, sizes) for kind in kinds) for sizes in (filled, few))
    # Segments grow in steps; what is unused in them does not grow with buffers of messages.
    unused = max(part.reserved - part.memory for part in parts.values())
    return memory, memory + max(highest(last, few) - of_few, unused)


def _flops(job, part, count):
    """Return the FLOPs of a job's model; a `part` with some micro-batches has counted them."""
    if job.model.has_sizes:
        return job.model.flops(job.sequences)
    if job.program.recompute != "none":  # what is recomputed is no work of the model
        plain = replace(job.program, recompute="none")
        part = run(replace(job, micro_batches=count, program=plain))
    return part.flops * job.micro_batches / count


def _causes_of(parts, axes, wanted, seconds):
    """Extend each cause; a rank waits for others in the time that is left.

    With more stages, the share of the first and the last, which do other work, becomes smaller in
    the mean, at every micro-batch.
    """
    stages, counts, _ = axes
    causes = {}
    for cause in CAUSES:
        if cause == WAITING:
            continue
        at = _at({sizes: part.causes[cause] for sizes, part in parts.items()}, axes, wanted)
        inverse = [1 / n for n in stages]
        means = [at(n, counts[0]) for n in stages]
        more = _line(inverse, means, 1 / wanted[0]) - at(stages[0], counts[0])
        value = _line(counts, [at(stages[0], n) for n in counts], wanted[1])
        causes[cause] = max(value + more * wanted[1] / counts[0], 0.0)
    causes[WAITING] = max(seconds - sum(causes.values()), 0.0)
    total = sum(causes.values())
    return {cause: causes[cause] * seconds / total for cause in CAUSES}


def _few_layers(job):
    """Return two numbers of layers of a stage whose further ones are like all further ones."""
    program, few = job.program, SHARDED_LAYERS if job.program.sharded else LAYERS
    if program.recompute_first:
        return [program.recompute_first + n for n in few]
    every = program.recompute_every
    rest = job.model.layers // job.stages % every
    low = -(-few[0] // every)
    high = max(-(-few[1] // every), low + 1)
    return [low * every + rest, high * every + rest]


def _sizes(whole, few):
    """Return what to simulate: two sizes, or the whole one if it is not larger."""
    return [whole] if whole <= few[1] else list(few)


def _fillings(job):
    """Return how many micro-batches a stage: at least as many as its first rank ever keeps."""
    return (1, 2) if job.program.chunks == 1 else (2, 3)


def _can_shrink(job):
    """Return whether jobs with fewer stages, too, leave no node partly filled."""
    size = job.tensor * job.data
    return size % job.cluster.gpus_per_node == 0


def _reduced(job, stages, micro_batches, layers):
    layers *= stages * job.program.chunks
    model = job.model if layers == job.model.layers else replace(job.model, layers=layers)
    cluster = job.cluster
    if stages != job.pipeline:
        cluster = _part(cluster, job.tensor * job.data * stages)
    return replace(job, model=model, micro_batches=micro_batches, pipeline=stages, cluster=cluster)


def _part(cluster, gpus) -> Cluster:
    nodes = gpus // cluster.gpus_per_node
    name = f"{nodes} x {cluster.gpus_per_node} {cluster.gpu.name} on {cluster.link.name}"
    return replace(cluster, nodes=nodes, name=name)


def _corner(stages, counts):
    """Return pairs: all numbers of stages with the first count, and the first with the others."""
    return [(n, counts[0]) for n in stages] + [(stages[0], n) for n in counts[1:]]


def _extend(values, axes, wanted):
    """Extrapolate linearly along each axis; `values` has a number for each point."""
    stages, counts, _ = axes
    at = _at(values, axes, wanted)
    more_stages = _line(stages, [at(n, counts[0]) for n in stages], wanted[0])
    more_counts = _line(counts, [at(stages[0], n) for n in counts], wanted[1])
    return more_stages + more_counts - at(stages[0], counts[0])


def _at(values, axes, wanted):
    """Return a function: the value for some stages and micro-batches, with all layers."""
    layers = axes[2]

    def at(stages, count):
        return _line(layers, [values[stages, count, n] for n in layers], wanted[2])

    return at


def _line(sizes, values, wanted):
    """Return the value at a size, on the line through one or two known ones."""
    if len(sizes) == 1:
        return values[0]
    return values[0] + (wanted - sizes[0]) * (values[1] - values[0]) / (sizes[1] - sizes[0])
