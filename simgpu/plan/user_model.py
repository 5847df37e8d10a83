"""A model that a Python file makes, and its training step, data parallel, on each rank."""

import functools
import runpy
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import simgpu as sim
from simgpu.compiled.regions import Region
from simgpu.plan.plans import RECOMPUTE, SHARDS
from simgpu.plan.step.job import PlanError
from simgpu.plan.step.rules import split_matrices

_LISTS = functools.partial(functools.partial, lr=1e-3, foreach=True)
OPTIMIZERS = {
    "adamw": _LISTS(torch.optim.AdamW), "adam": _LISTS(torch.optim.Adam),
    "sgd": _LISTS(torch.optim.SGD), "sgd-momentum": _LISTS(torch.optim.SGD, momentum=0.9),
    "adafactor": torch.optim.Adafactor,
}  # by `Program.optimizer`  # fmt: skip


@dataclass(frozen=True)
class UserModel:
    """A model of the user's own: what it computes is known only by running it.

    Attributes
    ----------
    name : str
        The path of the file.
    make, batch : callable
        Its ``model()`` and ``batch(size)``.
    parameters : int
    tokens : int, optional
        Of a sample; None: a sample has no tokens.
    """

    name: str
    make: Callable
    batch: Callable
    parameters: int
    tokens: int | None
    experts, layers = 0, 1  # none that are known
    has_sizes = False

    @property
    def work(self):
        """What a sample counts in rates, and in which unit."""
        return (1, "samples") if self.tokens is None else (self.tokens, "tokens")

    @property
    def no_experts(self):
        """Why its tokens cannot be routed to experts, in words."""
        return f"{self.name} routes its tokens itself"

    def with_sequence(self, tokens):
        """Refuse another length of sequences."""
        raise PlanError(f"--sequence {tokens}: batch(size) in {self.name} says how long")

    def broken_rules(self, job):
        """Yield an error for each rule that a job of this model breaks."""
        for option, ways in (
            ("tp", job.tensor), ("pp", job.pipeline), ("cp", job.context), ("ep", job.expert),
            ("etp", job.expert_split),
        ):  # fmt: skip
            if ways != 1:
                yield PlanError(
                    f"--{option} {ways} cannot split {self.name}, which says itself what it "
                    "computes; leave it out, or describe the sizes in a .json file",
                    f"a .py file has no {option}",
                )
        yield from split_matrices(job)
        recompute = {value: option for option, value in RECOMPUTE.items()}[job.program.recompute]
        recompute = "of some layers" if job.program.recomputes_some else recompute
        for option, value, known in (
            ("shard", SHARDS.index(job.program.shard), (0, 3)),
            ("recompute", recompute, ("full", "none")),
            ("dtype", job.dtype, ("bfloat16", "float16", "float32", "tf32")),
            ("loss", job.program.loss, ("eager",)),
            ("optimizer", job.program.optimizer, (*OPTIMIZERS,)),
        ):
            if value not in known:
                give = " or ".join(map(str, known))
                yield PlanError(
                    f"--{option} {value} comes later for a .py file; give {give}",
                    f"a .py file has no {option} {value}",
                )


def load(path) -> UserModel:
    """Return the model that the functions ``model`` and ``batch`` of a Python file make.

    Raises
    ------
    PlanError
        If the file is not there, or lacks one of them, or they return something else.
    """
    if not Path(path).is_file():
        raise PlanError(f"{path} is not there; give a Python file with model() and batch(size)")
    names = _unless_it_exits(path, lambda: runpy.run_path(path))
    for name, what in (
        ("model", "def model(), which returns a torch.nn.Module"),
        (
            "batch",
            "def batch(size), which returns the inputs of a micro-batch, a tensor or a tuple",
        ),
    ):
        if not callable(names.get(name)):
            raise PlanError(f"{path} has no function {name}; add {what}")
    make, batch = names["model"], names["batch"]
    with torch.device("meta"):
        net, (first, *_) = _unless_it_exits(path, lambda: (make(), _inputs(batch, 1)))
    if not isinstance(net, nn.Module):
        raise PlanError(f"model() returned {type(net).__name__}; return a torch.nn.Module")
    parameters = sum(parameter.numel() for parameter in net.parameters())
    tokens = None if first.is_floating_point() else first.numel()
    return UserModel(path, make, batch, parameters, tokens)


def _unless_it_exits(path, call):
    """Return what a call of a model's file returns; refuse a file that ends the program."""
    try:
        return call()
    except SystemExit:
        raise PlanError(
            f"{path} calls sys.exit(); keep that under if __name__ == '__main__'"
        ) from None


def _inputs(batch, size):
    inputs = batch(size)
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    if not inputs or not all(isinstance(x, torch.Tensor) for x in inputs):
        raise PlanError("batch(size) returned no tensor; return one, or a tuple of tensors")
    return inputs


def step(rank, job):
    """Run one step after one to warm up; return its start, end, and peaks of memory."""
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    low_precision = job.program.half
    job.program.set_precision()
    with torch.device("meta"):
        net = job.model.make()
    if not job.program.has_copies:
        net.to(low_precision)
    blocks = [b for m in net.modules() if isinstance(m, nn.ModuleList) for b in m]
    if job.program.recompute == "full":
        for block in blocks:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    sharded = job.program.sharded
    casts = not sharded and low_precision is not torch.float32
    if job.program.compiled:
        for module in blocks if sharded and blocks else [net]:
            module.forward = Region(module.forward)
    if sharded:
        policy = MixedPrecisionPolicy(low_precision, job.program.reduced)
        for module in (*blocks, net):
            fully_shard(module, mp_policy=policy)
    net.to_empty(device=device)
    if not sharded and dist.get_world_size() > 1:
        net = DistributedDataParallel(net)
    optimizer = OPTIMIZERS[job.program.optimizer](net.parameters())
    for _ in range(2):
        torch.accelerator.synchronize()
        start = sim.now()
        for left in reversed(range(job.micro_batches)):
            with torch.device(device):
                inputs = _inputs(job.model.batch, job.micro_batch)
            waits = left and isinstance(net, DistributedDataParallel)
            with net.no_sync() if waits else nullcontext():
                with torch.autocast(device.type, low_precision, enabled=casts):
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
