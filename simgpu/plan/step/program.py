"""One training step of a job, as the program that each of its ranks runs."""

from dataclasses import replace
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import Shard

import simgpu as sim
from simgpu.plan.step.context_parallel import ContextParallel
from simgpu.plan.step.experts import Experts, Places
from simgpu.plan.step.gradients import Buckets
from simgpu.plan.step.job import HYBRID
from simgpu.plan.step.layers import Embedding, Head, Layer
from simgpu.plan.step.peaks import Peaks
from simgpu.plan.step.products import Products
from simgpu.plan.step.recipe import optimizers
from simgpu.plan.step.tensor_parallel import Split


class Stage(nn.Sequential):
    """Some of the layers, with the embedding before the first and the loss after the last."""

    def __init__(self, job, number, split, context, places):
        program = job.program
        rows = -(-job.model.vocabulary // job.tensor) * job.tensor  # equal parts of the columns
        model = replace(job.model, vocabulary=rows)
        whole = Products(replace(program, float8=False))  # embedding and output layer
        plain = Split(whole, split.group, split.sequence, split.overlap)
        count, last = model.layers // job.stages, number == job.stages - 1
        parts = [Layer(model, program.of_layer(i), split, context, places) for i in range(count)]
        table = None
        if number == 0:
            parts.insert(0, Embedding(model, plain))
            table = parts[0].table if model.tied else None
        super().__init__(*parts, *([Head(model, program, plain, table)] if last else []))
        # The interleaved schedule posts receives early, and the host would wait for these, too.
        self.waits = program.host_waits and job.pipeline > 1 and program.chunks == 1

    def forward(self, x):
        """Run the layers; the host may wait for what they receive, forward and backward."""
        if not self.waits:
            return super().forward(x)
        torch.accelerator.synchronize()
        y = super().forward(x)
        y.register_hook(lambda _: torch.accelerator.synchronize())
        return y


def step(rank, job):
    """Run one step; return when it began and ended, and what `Peaks.take` returns."""
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    mesh = _mesh(device.type, "dp", pp=job.pipeline, dp=job.data, tp=job.tensor)
    place = mesh["pp"].get_local_rank() if job.pipeline > 1 else 0
    numbers = range(place, job.stages, job.pipeline)
    group = mesh["tp"].get_group() if job.tensor > 1 else None
    program = job.program
    program.set_precision()
    split = Split(Products(program), group, program.sequence_parallel, program.overlap)
    context = ContextParallel(_context_group(job, device))
    places = _places(job, device, split)
    fsdp = job.program.sharded
    with torch.device("meta"):
        stages = [Stage(job, number, split, context, places) for number in numbers]
    for stage in stages:
        stage.to(program.master if fsdp else program.half)
        if fsdp:
            _shard(stage, job, mesh, places)
        stage.to_empty(device=device)
    if not job.has_buckets:
        inside = {
            p: isinstance(part, Layer) for stage in stages for part in stage
            for p in part.parameters()
        }  # fmt: skip
        finish = optimizers.changing(program.optimizer, [*inside], [*inside.values()])
        begin = _nothing
    else:
        begin, finish = _buckets(stages, job, mesh, places)
    run = (_pipeline if job.pipeline > 1 else _accumulate)(stages, numbers, job, mesh, device)
    torch.accelerator.synchronize()
    peaks = Peaks(device)
    for stage in stages:
        peaks.watch(stage, [part for part in stage if isinstance(part, Layer)])
    start = sim.now()
    begin()
    run()
    finish()
    torch.accelerator.synchronize()
    return start, sim.now(), *peaks.take()


def _mesh(device, kept, **sizes):
    """Make a mesh of the axes with several ranks, and of the one that is `kept` in any case.

    An axis of one rank would need a group for each rank of the job.
    """
    sizes = {name: size for name, size in sizes.items() if size > 1 or name == kept}
    return dist.init_device_mesh(device, tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def _nothing():
    pass


def _context_group(job, device):
    """Return the group of data parallel ranks that share a sequence, None for one."""
    if job.context == 1:
        return None
    sizes = {"pp": job.pipeline, "dp": job.replicas, "cp": job.context, "tp": job.tensor}
    return _mesh(device.type, "cp", **sizes)["cp"].get_group()


def _places(job, device, split):
    """Return the `Places` of the experts; `split` is that of dense layers."""
    ranks, tensor = job.tensor * job.data, job.expert_split
    if job.expert == 1 and tensor == job.tensor:
        return Places(None, split, None)
    replicas = ranks // (job.expert * tensor)
    sizes = {"pp": job.pipeline, "replicas": replicas, "ep": job.expert, "tp": tensor}
    mesh = _mesh(device.type, "replicas", **sizes)
    group = mesh["ep"].get_group() if job.expert > 1 else None
    if tensor != job.tensor:
        inside = mesh["tp"].get_group() if tensor > 1 else None
        split = Split(split.products, inside, split.sequence, split.overlap)
    return Places(group, split, mesh["replicas"])


def _buckets(stages, job, mesh, places):
    """Make the buckets of what all data parallel ranks share, and those of split experts."""
    dense, own, apart = [], [], set()
    for module in (module for stage in stages for module in stage):
        experts = [part for part in module.modules() if isinstance(part, Experts)]
        split = [p for part in experts for p in part.own.parameters()] if places.replicas else []
        apart |= {id(p) for p in split}
        shared = [p for p in module.parameters() if id(p) not in apart]
        apart |= {id(p) for p in shared}  # a tied table has one gradient
        dense.append((module, shared))
        own += [(module, split)] if split else []
    found = [Buckets(dense, mesh["dp"].get_group(), job.program, job.micro_batches,
                     _shards(job, mesh.device_type))]  # fmt: skip
    if own:
        found.append(Buckets(own, places.replicas.get_group(), job.program, job.micro_batches))
    return tuple(_each(found, name) for name in ("begin", "finish"))


def _shards(job, device):
    """Return the group that shares the optimiser's states, None if all replicas do."""
    size = job.program.zero_group or job.data
    if size == job.data:
        return None
    sizes = {"pp": job.pipeline, "replicas": job.data // size, "shards": size, "tp": job.tensor}
    return _mesh(device, "shards", **sizes)["shards"].get_group()


def _each(buckets, name):
    def call():
        for one in buckets:
            getattr(one, name)()

    return call


def _shard(stage, job, mesh, places):
    policy = MixedPrecisionPolicy(job.program.half, job.program.reduced)
    mesh = mesh["dp"]
    if job.program.shard == "hybrid":
        mesh = dist.init_device_mesh(
            mesh.device_type, (job.data // HYBRID, HYBRID), mesh_dim_names=("replicas", "shards")
        )
    again = job.program.shard != "grad_op" and job.pipeline == 1
    shard = partial(fully_shard, mp_policy=policy, shard_placement_fn=_placement)
    for part in stage.modules():
        if isinstance(part, Experts) and places.replicas:
            shard(part.own, mesh=places.replicas, reshard_after_forward=again)
    for part in stage:
        if isinstance(part, Layer):
            shard(part, mesh=mesh, reshard_after_forward=again)
    shard(stage, mesh=mesh, reshard_after_forward=False)


def _placement(parameter):
    """Split experts by their rows: there may be fewer experts than ranks."""
    return Shard(1) if parameter.ndim == 3 else None


def _tokens(job, count, device):
    length = job.model.seq // job.context
    return torch.empty(count * job.micro_batch, length, dtype=torch.int64, device=device)


def _accumulate(stages, _, job, mesh, device):
    def run():
        for _ in range(job.micro_batches):
            stages[0](_tokens(job, 1, device)).sum().backward()

    return run


def _pipeline(stages, numbers, job, mesh, device):
    model, program = job.model, job.program
    whole = model.seq // job.context
    length = whole // (job.tensor if program.sequence_parallel else 1)
    shape = length, job.micro_batch, model.hidden
    hidden = torch.empty(shape, dtype=program.half, device="meta", requires_grad=True)
    first = torch.empty(job.micro_batch, whole, dtype=torch.int64, device="meta")
    loss = torch.empty(1, device="meta")
    parts = [
        PipelineStage(
            stage, number, job.stages, device, group=mesh["pp"].get_group(),
            input_args=(first if number == 0 else hidden,),
            output_args=(loss if number == job.stages - 1 else hidden,),
        )
        for stage, number in zip(stages, numbers, strict=True)
    ]  # fmt: skip
    kind = schedules.Schedule1F1B if len(parts) == 1 else schedules.ScheduleInterleaved1F1B
    # With fewer micro-batches than stages, 1F1B is GPipe, and PyTorch's refuses.
    if program.schedule == "gpipe" or job.micro_batches < job.pipeline:
        kind = schedules.ScheduleGPipe
    schedule = kind(
        parts[0] if len(parts) == 1 else parts, job.micro_batches,
        loss_fn=lambda loss, _: loss.sum(), scale_grads=False,
    )  # fmt: skip
    x = _tokens(job, job.micro_batches, device)

    def run():
        words = {"target": x} if numbers[-1] == job.stages - 1 else {}
        schedule.step(*([x] if numbers[0] == 0 else []), **words, return_outputs=False)

    return run
