"""Lower bounds of the time and the memory of a step: they decide what need not be simulated.

*By formula*: FLOPs over the best share of the peak, the bubble of the pipeline, messages that are
waited for, bytes of the states. *By a probe*: what a layer really takes for a micro-batch, and
what it keeps, from small steps on one pipeline stage. Neither is shown as a time of a plan. Both
should never exceed what is simulated; that is not proved, but tests compare them on samples.
"""

import math
import operator
from dataclasses import dataclass, replace
from functools import lru_cache

from simgpu.hardware.attention import attention_efficiency
from simgpu.network.collective_costs import cost
from simgpu.plan.simulate import run
from simgpu.plan.step.recipe.optimizers import state_bytes

FLOAT = 4  # bytes of a number of float32
PROBED = 1, 2  # layers, and micro-batches
SURE = 0.98  # of a probed time: in larger steps a little is hidden behind launches of the host


@dataclass(frozen=True)
class Bounds:
    """What a step takes at least.

    Attributes
    ----------
    seconds, memory : float
        Of a step; bytes on the GPU that needs most.
    """

    seconds: float
    memory: float


@dataclass(frozen=True)
class LayerBounds:
    """What a layer takes at least for one micro-batch, and what embedding and loss take.

    Attributes
    ----------
    seconds, kept : float
        Of a layer: time, and bytes that it keeps until the backward pass.
    outer_seconds : float
        Of embedding, output layer and loss together.
    temporary : float
        Bytes at the peak that belong to no layer and to no state, such as logits.
    """

    seconds: float
    kept: float
    outer_seconds: float
    temporary: float


def bounds_of(job, layer=None) -> Bounds:
    """Return the lower bounds of a job, by formula, or better ones with a probed `layer`.

    Nothing is known in advance of a model that a Python file makes: its bounds are 0.
    """
    if not job.model.has_sizes:
        return Bounds(0.0, 0.0)
    layer = layer or _layer(job)
    return Bounds(_seconds(job, layer), _memory(job, layer))


def probe_key(job):
    """Return the job that `probe` simulates parts of; jobs with the same one share a probe.

    None if there is none: a Python file makes the model, or the probe's ranks would fill a node
    only in part, unlike those of the whole job.
    """
    if not job.model.has_sizes:
        return None
    experts = job.expert * job.expert_split
    data = math.lcm(job.context, experts // math.gcd(experts, job.tensor))
    gpus, cluster = job.tensor * data, job.cluster
    each = min(gpus, cluster.gpus_per_node)
    if gpus % each:
        return None
    nodes = gpus // each
    name = f"{nodes} x {each} {cluster.gpu.name} of {cluster.name}"
    cluster = replace(cluster, nodes=nodes, gpus_per_node=each, name=name)
    program = replace(job.program, shard="none", chunks=1, schedule="1f1b")
    layers = job.model.layers // job.stages if program.recomputes_some else 1
    return replace(
        job, program=program, cluster=cluster, data=data, pipeline=1, micro_batches=1,
        model=replace(job.model, layers=layers),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def probe(job) -> LayerBounds:
    """Simulate four small steps, and return what a further layer takes for a further micro-batch.

    What a step does once, such as summing gradients, is not in it.
    """
    if job.program.recomputes_some:
        return _mean_of_layers(job)
    steps = {
        (layers, count): run(
            replace(job, micro_batches=count, model=replace(job.model, layers=layers))
        )
        for layers in PROBED
        for count in PROBED
    }

    def grows(measure):
        few, many = ([measure(steps[n, count]) for n in PROBED] for count in PROBED)
        return (many[1] - many[0]) - (few[1] - few[0])

    seconds = grows(lambda step: step.seconds)
    outer = steps[1, 2].seconds - steps[1, 1].seconds - seconds - _addition(job, _rows(job))
    seconds -= _addition(job, _weights(job, 1))
    each = _bytes_of_states(job)
    kept = steps[2, 1].memory - steps[1, 1].memory - each * _weights(job, 1)
    temporary = steps[1, 1].memory - kept - each * (_weights(job, 1) + _rows(job))
    values = SURE * seconds, kept, SURE * outer, temporary
    return LayerBounds(*(max(value, 0.0) for value in values))


def _mean_of_layers(job):
    """Return the mean of a stage's layers, of which only some are recomputed."""
    model, depth = replace(job.model, layers=1), job.model.layers
    each = [job.program.of_layer(i).recompute for i in range(depth)]
    shares, parts = [], []
    for recompute in set(each):
        program = replace(job.program, recompute=recompute, recompute_every=1, recompute_first=0)
        shares.append(each.count(recompute) / depth)
        parts.append(probe(replace(job, model=model, program=program)))
    return LayerBounds(
        *(sum(map(operator.mul, shares, column))
          for column in ([p.seconds for p in parts], [p.kept for p in parts])),
        min(p.outer_seconds for p in parts), min(p.temporary for p in parts),
    )  # fmt: skip


def _addition(job, weights):
    """Seconds to add gradients to those of the first micro-batch, in kernels of their own."""
    gpu, num_bytes = job.cluster.gpu, 3 * job.program.half.itemsize
    return 0.0 if job.has_buckets else num_bytes * weights / (
        gpu.memory_bandwidth * gpu.memory_efficiency
    )  # fmt: skip


def _low(job):
    """Bytes of a number of parameters and activations."""
    return job.program.half.itemsize


def _tokens(job):
    """Tokens of a micro-batch on one rank, before tensor parallelism."""
    return job.micro_batch * job.model.seq // job.context


def _rate(job):
    gpu = job.cluster.gpu
    return job.peak * max(gpu.matmul_efficiency or 0.0, gpu.compute_efficiency)


def _layer(job):
    """By formula: products and attention at the best share of the peak, and messages."""
    model, tokens = job.model, _tokens(job)
    weights = model.layer_parameters - model.expert_parameters * (
        max(model.experts, 1) - max(model.active, 1)
    )
    scores = 2 * model.heads * model.head_size * model.seq  # of a causal half, a token
    program = job.program
    recomputed = program.recompute in ("full", "all") and not program.recomputes_some
    products = 6 * weights + (2 * (weights - model.hidden * model.width) if recomputed else 0)
    seconds = products / _rate(job) + (4.5 if recomputed else 3.5) * scores / _attention_rate(job)
    seconds = seconds * tokens / job.tensor + _messages(job) + _pointwise(job, recomputed)
    kept = {"none": 3 * model.hidden + 2 * model.width * max(model.active, 1),
            "products": 2 * model.hidden}  # fmt: skip
    kept = kept.get(job.program.recompute, model.hidden) * _low(job) * tokens / job.tensor
    head = 6 * model.vocabulary * model.hidden * tokens / job.tensor
    logits = tokens * model.vocabulary / job.tensor * _bytes_of_logit(job.program)
    return LayerBounds(seconds, kept, head / _rate(job), logits)


def _bytes_of_logit(program):
    """Bytes of each logit that are kept at once, at least."""
    return {"eager": FLOAT, "in place": FLOAT, "fused": 0}.get(program.loss, program.half.itemsize)


def _attention_rate(job):
    gpu, program = job.cluster.gpu, job.program
    kernels = ("flash", "efficient", "cudnn")
    best = max(attention_efficiency(gpu, kernel, program.dtype) for kernel in kernels)
    return gpu.flops[program.dtype] * best


def _pointwise(job, recomputed):
    """Bytes of norms, of what is added, and of the activation: read and written once each."""
    model, gpu = job.model, job.cluster.gpu
    width = model.width * max(model.active, 1)
    numbers = 13 * model.hidden + (8 if model.gated else 5) * width
    numbers += (6 * model.hidden + 3 * width) if recomputed else 0
    fewer = 2 if job.program.compiled or job.program.fused else 1
    num_bytes = numbers * _low(job) * _tokens(job) / job.tensor / fewer
    return num_bytes / (gpu.memory_bandwidth * gpu.memory_efficiency)


def _messages(job):
    """Exposed messages of a layer: those of experts in the backward pass, too."""
    model, tokens, ranks = job.model, _tokens(job), job.tensor
    total = 0.0
    if ranks > 1:
        num_bytes = tokens * model.hidden * _low(job)
        for name in ("all_gather", "reduce_scatter"):  # attention, and a dense feed-forward part
            times = 1 if model.experts else 2
            total += times * _cost(name, num_bytes, (0, ranks, 1), job.cluster)
    if model.experts:
        total += _messages_of_experts(job, tokens * model.active * model.hidden * _low(job) / ranks)
    if job.context > 1:
        keys = 2 * model.keys * model.head_size // ranks
        num_bytes = tokens * job.context * keys * _low(job)
        total += _cost("all_gather", num_bytes, (0, job.context * ranks, ranks), job.cluster)
    return total


def _messages_of_experts(job, num_bytes):
    """Tokens to the experts and back, and among the ranks of an expert; `num_bytes` of a rank."""
    size, total = job.expert_split, 0.0
    if job.expert > 1:
        total += 4 * _cost("all_to_all", num_bytes, (0, job.expert * size, size), job.cluster)
    if size > 1:
        for name in ("all_gather", "reduce_scatter"):
            total += 2 * _cost(name, num_bytes * size, (0, size, 1), job.cluster)
    return total


@lru_cache(maxsize=4096)
def _cost(name, num_bytes, members, cluster):
    return cost(name, num_bytes, range(*members), cluster).seconds


def _seconds(job, layer):
    model, count = job.model, job.micro_batches
    stage = layer.seconds * model.layers / job.pipeline
    outer = layer.outer_seconds
    if job.pipeline > 1:
        outer = max(_layer(job).outer_seconds, outer / 2)
    bubble = (job.pipeline - 1) * stage / job.program.chunks
    gpu, weights = job.cluster.gpu, _weights(job, model.layers // job.pipeline)
    share = 1 if job.program.shard == "none" else _sharing(job)
    moved = _bytes_of_update(job) * weights / share
    update = moved / (gpu.memory_bandwidth * gpu.memory_efficiency)
    return max(count * (stage + outer) + bubble, _replicas(job, weights)) + update


def _bytes_of_update(job):
    """Bytes that the optimizer reads and writes for a weight, at least."""
    program, master = job.program, job.program.master.itemsize
    copied = program.half.itemsize if program.has_copies else 0
    return 3 * master + 2 * state_bytes(program.optimizer, master) + copied


def _replicas(job, weights):
    """Seconds on the links to sum gradients and to gather sharded parameters."""
    if job.data == 1 or job.model.experts:
        return 0.0
    members = (0, job.data * job.tensor, job.tensor)
    gradients = weights * job.program.reduced.itemsize
    if job.program.shard == "none":
        return _cost("all_reduce", gradients, members, job.cluster)
    summed = _cost("reduce_scatter", gradients, members, job.cluster)
    gathered = _cost("all_gather", weights * _low(job), members, job.cluster)
    if job.pipeline == 1 and job.program.shard == "full":
        return job.micro_batches * (2 * gathered + summed)
    if job.pipeline == 1 and job.program.shard == "grad_op":
        return job.micro_batches * (gathered + summed)
    return summed + gathered


def _weights(job, layers):
    """Weights of some layers on one rank, before ZeRO."""
    model = job.model
    dense = model.dense_parameters if model.experts else model.layer_parameters
    experts = model.expert_parameters * model.experts / (job.expert * job.expert_split)
    return layers * (dense / job.tensor + experts)


def _sharing(job):
    """Among how many ranks the states of a weight are split, at most."""
    if not job.model.experts:
        return job.data
    return max(job.data, job.data * job.tensor // (job.expert * job.expert_split))


def _bytes_of_states(job):
    """Bytes of a weight with its gradient and the optimizer's numbers, on one of the replicas."""
    program, low, master = job.program, job.program.half.itemsize, job.program.master.itemsize
    reduced, states = program.reduced.itemsize, state_bytes(program.optimizer, master)
    if not program.sharded:
        own = states + (master if program.has_copies else 0)
        return low + reduced + own / (_sharing(job) if program.shard == "optimizer" else 1)
    own = (2 * master + states) / _sharing(job)
    if job.pipeline > 1:  # parameters stay gathered, and gradients whole until the last one
        return own + low + (reduced if job.micro_batches > 1 else 0)
    return own


def _rows(job):
    """Weights of the embedding and of the output layer on one rank, before ZeRO."""
    model = job.model
    positions = 0 if model.gated else model.seq * job.tensor
    tables = model.vocabulary * (1 if model.tied else 2)
    return (tables + positions) * model.hidden / job.tensor


def _memory(job, layer):
    """Return the larger one of the first and the last stage's bytes."""
    model, depth = job.model, job.model.layers // job.pipeline
    each, weights = _bytes_of_states(job), _weights(job, depth)
    at_end = each * weights  # when the optimiser runs
    if job.pipeline == 1:
        rows = _rows(job)
        if not job.has_buckets and job.program.shard != "hybrid" and job.micro_batches == 1:
            # No gradients yet when most activations are there.
            each -= job.program.master.itemsize / _sharing(job)
        most = each * (weights + rows) + depth * layer.kept + layer.temporary
        most += _low(job) * weights if job.program.shard == "grad_op" else 0  # gathered
        return max(most, at_end + _bytes_of_states(job) * rows)
    table = model.vocabulary * model.hidden / job.tensor
    first = each * (weights + table) + depth * layer.kept * _waiting(job)
    logits = _tokens(job) * model.vocabulary / job.tensor * _bytes_of_logit(job.program)
    last = each * (weights + table) + depth * layer.kept + logits
    return max(first, last)


def _waiting(job):
    """Micro-batches whose activations the first stage keeps at once."""
    count, chunks, stages = job.micro_batches, job.program.chunks, job.pipeline
    if chunks > 1:  # parts of stages that run before the first backward pass
        return min((chunks - 1) * stages + 2 * (stages - 1) + 1, count * chunks) / chunks
    return count if job.program.schedule == "gpipe" else min(stages, count)
