"""A model of the user's own, made by a Python file: its step, data parallel, on folded ranks."""

import functools
import runpy
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import simgpu as sim
from simgpu.network.cluster import Cluster
from simgpu.plan.simulate import ROOMY, Simulated, causes_between, with_uncounted
from simgpu.plan.step.job import PlanError

COUNTS = 1, 2  # micro-batches that are simulated; a step of more goes on in a straight line


@dataclass(frozen=True)
class OwnJob:
    """A step of a model that a Python file makes.

    Attributes
    ----------
    make, batch : callable
        The file's ``model()`` and ``batch(size)``.
    cluster : Cluster
    shard : str
        ``"full"`` (FSDP2) or ``"none"`` (DDP).
    recompute : bool
        Every block (child of a `ModuleList`) runs again in the backward pass.
    dtype : str
        Of the products.
    micro_batch, micro_batches : int
    """

    make: object
    batch: object
    cluster: Cluster
    shard: str
    recompute: bool
    dtype: str
    micro_batch: int
    micro_batches: int

    @property
    def replicas(self):
        """How many samples are processed at the same time: every GPU is a replica."""
        return self.cluster.world_size


def load(path):
    """Return the functions ``model`` and ``batch`` of a Python file.

    Raises
    ------
    PlanError
        If the file is not there, or lacks one of them.
    """
    if not Path(path).is_file():
        raise PlanError(f"{path} is not there; give a Python file with model() and batch(size)")
    names = runpy.run_path(path)
    for name, what in (
        ("model", "def model(), which returns a torch.nn.Module"),
        (
            "batch",
            "def batch(size), which returns the inputs of a micro-batch, a tensor or a tuple",
        ),
    ):
        if not callable(names.get(name)):
            raise PlanError(f"{path} has no function {name}; add {what}")
    return names["model"], names["batch"]


def describe(make, batch, size):
    """Return the number of parameters, and of tokens of a micro-batch (None: it has samples)."""
    with torch.device("meta"):
        net, inputs = make(), _inputs(batch, size)
    if not isinstance(net, nn.Module):
        raise PlanError(f"model() returned {type(net).__name__}; return a torch.nn.Module")
    first = inputs[0]
    tokens = None if first.is_floating_point() else first.numel()
    return sum(p.numel() for p in net.parameters()), tokens


def _inputs(batch, size):
    found = batch(size)
    found = found if isinstance(found, (tuple, list)) else (found,)
    if not found or not all(isinstance(x, torch.Tensor) for x in found):
        raise PlanError("batch(size) returned no tensor; return one, or a tuple of tensors")
    return found


def simulate(job):
    """Return what a step takes (`Simulated`), and the FLOPs of all its GPUs."""
    counts = [n for n in COUNTS if n <= job.micro_batches] if job.micro_batches > 2 else [
        job.micro_batches
    ]  # fmt: skip
    found = [_run(replace(job, micro_batches=n)) for n in counts]
    flops = found[-1][1]
    if job.recompute:  # what is computed again is no work of the model
        flops = _run(replace(job, micro_batches=counts[-1], recompute=False))[1]
    flops *= job.micro_batches / counts[-1] * job.cluster.world_size
    if len(counts) == 1:
        return found[0][0], flops
    first, second = (one for one, _ in found)
    more = job.micro_batches - counts[-1]
    causes = {
        cause: max(seconds + more * (seconds - first.causes[cause]), 0.0)
        for cause, seconds in second.causes.items()
    }
    seconds = second.seconds + more * (second.seconds - first.seconds)
    return replace(second, seconds=seconds, causes=causes), flops


def _run(job):
    cluster = job.cluster
    try:
        (((start, end, *memory), unknown),) = sim.spawn(
            with_uncounted(_step), (job,), cluster.world_size,
            gpu=replace(cluster.gpu, memory=ROOMY),
            link=cluster.link, nodes=cluster.nodes, network=cluster.network, numerics=False,
            ranks=[0],
        )  # fmt: skip
    except (ValueError, RuntimeError, AssertionError, TypeError) as error:
        raise PlanError(f"the model does not run: {error or type(error).__name__}") from None
    spans = [s for s in sim.trace() if s.engine == "compute" and start <= s.start <= end]
    causes = causes_between(cluster.gpu, start, end)
    found = Simulated(end - start, *memory, causes, uncounted=unknown)
    return found, sum(s.flops for s in spans)


def _step(rank, job):
    """Run one step after one to warm up; return its start, end, and peaks of memory."""
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    half = getattr(torch, job.dtype)
    with torch.device("meta"):
        net = job.make()
    blocks = [b for m in net.modules() if isinstance(m, nn.ModuleList) for b in m]
    if job.recompute:
        for block in blocks:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    sharded = job.shard == "full"
    if sharded:
        policy = MixedPrecisionPolicy(half, torch.float32)
        for module in (*blocks, net):
            fully_shard(module, mp_policy=policy)
    net.to_empty(device=device)
    if not sharded and dist.get_world_size() > 1:
        net = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
    for _ in range(2):
        torch.accelerator.synchronize()
        start = sim.now()
        for _ in range(job.micro_batches):
            with torch.device(device):
                inputs = _inputs(job.batch, job.micro_batch)
            with torch.autocast(device.type, half, enabled=not sharded):
                out = net(*inputs)
            _loss(out).backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.accelerator.synchronize()
    memory = torch.accelerator
    peaks = memory.max_memory_allocated(device), memory.max_memory_reserved(device)
    return start, sim.now(), *peaks


def _loss(out):
    """Return the loss in an output: itself, its ``loss``, or its first tensor, summed."""
    out = getattr(out, "loss", None) if getattr(out, "loss", None) is not None else out
    out = out[0] if isinstance(out, (tuple, list)) else out
    if not isinstance(out, torch.Tensor):
        raise PlanError(
            f"the model returned {type(out).__name__}; return the loss or another tensor, or an "
            "object with one as .loss"
        )
    return out.float().sum()
