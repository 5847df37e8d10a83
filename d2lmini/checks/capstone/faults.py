"""Jobs of eight ranks in which something is wrong, and the checker of what a reader finds.

The ranks train copies of a small network. Each gradient is summed in three rounds, each between two
ranks (`ROUNDS`), so that the spans of a round say which two ranks took part.
"""

import random
from dataclasses import dataclass, field
from functools import lru_cache

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import simgpu as sim
from d2lmini.checks.shared.apart import apart
from simgpu.timeline import Timeline

RANKS, NODES, STEPS, WIDTH, BATCH = 8, 4, 2, 512, 512
ROUNDS = {"node": 1, "near": 2, "far": 4}  # partner: the rank with this bit of its number changed
PARAMETERS = 4
KINDS = ("slow GPU", "slow card", "skipped sum", "wrong scale")


@dataclass(frozen=True)
class Fault:
    """What is wrong in a job.

    Attributes
    ----------
    kind : str
        One of `KINDS`, or "none".
    rank : int
    factor : float
        How many times as slow, or as large.
    at : tuple
        Step, parameter and round of the sum that is skipped.
    """

    kind: str = "none"
    rank: int = -1
    factor: float = 1.0
    at: tuple = ()


@dataclass(frozen=True)
class Run:
    """What is known of a job.

    Attributes
    ----------
    name : str
    spans : tuple of simgpu.Span
        Its trace. The ``group`` of a sum is the round: "mesh_node", "mesh_near" or "mesh_far".
    log : list of dict
        What ranks wrote: "step", "rank", "loss" of the rank's own data, "norm" of its gradient
        before the sums.
    ended : bool
        Whether all ranks came to their end; otherwise the job hung, and was stopped.
    """

    name: str
    spans: tuple = field(repr=False)
    log: list = field(repr=False)
    ended: bool

    @property
    def timeline(self):
        """The spans as a timeline."""
        return Timeline(self.spans)


def draw_faults(seed):
    """Return five faults, on different ranks: every kind once, and one of them again."""
    draw = random.Random(f"faults of {seed}")
    kinds = [*KINDS, draw.choice(KINDS)]
    draw.shuffle(kinds)
    ranks = draw.sample(range(RANKS), len(kinds))
    return [_fault(kind, rank, draw) for kind, rank in zip(kinds, ranks, strict=True)]


def _fault(kind, rank, draw):
    if kind == "skipped sum":
        at = 0, draw.randrange(PARAMETERS), draw.choice([*ROUNDS])  # sums follow in a later step
        return Fault(kind, rank, at=at)
    factors = {"slow GPU": (2.0, 2.5, 3.0), "slow card": (3.0, 4.0, 6.0)}
    return Fault(kind, rank, draw.choice(factors.get(kind, (RANKS, 1 / RANKS))))


def run_with(fault, name="healthy") -> Run:
    """Run the job with a fault, and return what is known of it."""
    spans, log, ended = _record(fault)
    return Run(name, spans, [dict(row) for row in log], ended)


@lru_cache(maxsize=16)
def _record(fault):
    """Return the trace of a job with a fault, its log, and whether it has ended."""
    log, slow, cards = [], {}, {}
    if fault.kind == "slow GPU":
        slow = {fault.rank: fault.factor}
    if fault.kind == "slow card":
        cards = {fault.rank: fault.factor}
    with apart():
        try:
            sim.spawn(
                _train, (fault, log), RANKS, "t4", nodes=NODES, network="12.5GB/s:2", slow=slow,
                slow_cards=cards,
            )  # fmt: skip
            ended = True
        except sim.RanksError:
            ended = False
        return tuple(sim.trace()), tuple(log), ended


def _train(rank, fault, log):
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    mesh = init_device_mesh(device.type, (2, 2, 2), mesh_dim_names=("far", "near", "node"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).to(device)
    generator = torch.Generator().manual_seed(rank)
    x, y = torch.randn(2, BATCH, WIDTH, generator=generator).to(device)
    wrong = fault.factor if (fault.kind, fault.rank) == ("wrong scale", rank) else 1.0
    for step in range(STEPS):
        loss = nn.functional.mse_loss(model(x), y)
        (loss * wrong / RANKS).backward()
        gradients = [p.grad for p in model.parameters()]
        norm = nn.utils.get_total_norm(gradients)
        for i, gradient in enumerate(gradients):
            for part in ROUNDS:
                if (fault.rank, fault.at) != (rank, (step, i, part)):
                    dist.all_reduce(gradient, group=mesh[part].get_group())
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        model.zero_grad()
        found = {"loss": round(loss.item(), 3), "norm": round(norm.item(), 5)}
        log.append({"step": step, "rank": rank} | found)
