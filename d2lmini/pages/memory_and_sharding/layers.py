"""Layers to shard, trained in other ways and timed."""

from collections import Counter

import matplotlib.pyplot as plt
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import simgpu as sim
from simgpu.timeline import Timeline

GPU = "rank 0 sim:0"  # whose lanes of a timeline are looked at


def network(width, depth, device="cpu"):
    """Return layers of two products each, with equal weights on all ranks.

    Parameters
    ----------
    width : int
        Numbers that enter and leave a layer; inside are four times as many.
    depth : int
        Layers.
    device : torch.device or str
        Where they are made, if only shapes are computed; on the CPU otherwise.
    """
    torch.manual_seed(0)  # the same weights on every rank
    where = device if not sim.is_numeric() else "cpu"

    def layer():
        wide = nn.Linear(width, 4 * width), nn.ReLU()
        return nn.Sequential(*wide, nn.Linear(4 * width, width))

    with torch.device(where):
        return nn.Sequential(*(layer() for _ in range(depth)))


def batches(rank, width, steps=3, batch_size=8):
    """Yield the inputs of a rank, other ones on each and in each step."""
    for step in range(steps):
        generator = torch.Generator().manual_seed(100 * step + rank)
        yield torch.randn(batch_size, width, generator=generator)


def ddp_weights(nprocs=4, width=16, depth=4):
    """Return the weights of a `network` after three steps with DDP and PyTorch's AdamW."""

    def train(rank):
        device = join()
        model = DistributedDataParallel(network(width, depth).to(device))
        return _three_steps(model, rank, width, device)

    return sim.spawn(train, nprocs=nprocs)[0]


def hsdp_weights(shape=(2, 2), width=16, depth=4):
    """Return the same weights after three steps with HSDP.

    Parameters
    ----------
    shape : tuple of int
        Replicas, and the ranks that share the states of one.
    width, depth : int
        Of the `network`.

    Returns
    -------
    weights : list of Tensor
    calls : Counter
        The collectives of all ranks by name.
    """

    def train(rank):
        device = join()
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=("replicate", "shard"))
        model = network(width, depth).to(device)
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return _three_steps(model, rank, width, device)

    weights = sim.spawn(train, nprocs=shape[0] * shape[1])[-1]
    return weights, Counter(span.name for span in sim.trace() if span.engine == "comm")


def join():
    """Join the other ranks; return this rank's GPU."""
    dist.init_process_group()
    return torch.accelerator.current_accelerator()


def _three_steps(model, rank, width, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for X in batches(rank, width):
        (model(X.to(device)) - 1).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return [p.detach().cpu() for p in whole]


def layers_timeline(wrap, tokens, gpu="a100", width=4096, depth=6):
    """Return a step of a `network` whose layers are sharded over eight simulated GPUs.

    Parameters
    ----------
    wrap : callable
        Shards a layer; if it is `fully_shard`, the whole network is wrapped as well.
    tokens : int
        Rows of the batch on each GPU, in bfloat16.
    gpu : str
    width, depth : int
        Of the `network`.

    Returns
    -------
    Timeline
        Of rank 0.
    """

    def run(rank):
        device = join()
        model = network(width, depth, device).to(torch.bfloat16)
        for layer in model:
            wrap(layer)
        if wrap is fully_shard:
            fully_shard(model)
        X = torch.zeros(tokens, width, dtype=torch.bfloat16, device=device)
        for _ in range(2):
            sim.synchronize()
            begin = sim.now()
            model(X).sum().backward()
        sim.synchronize()
        return sim.now() - begin

    (seconds,) = sim.spawn(run, nprocs=8, gpu=gpu, numerics=False, ranks=[0])
    return Timeline(sim.trace()).last(seconds)


def spent(timeline, engine="compute"):
    """Return the seconds that rank 0 computes, or sends and receives (`engine` "comm")."""
    return sum(span.duration for span in timeline.lanes()[GPU, engine])


def busy_share(timeline):
    """Return the share of a timeline in which rank 0 runs kernels."""
    return spent(timeline) / (timeline.end - timeline.start)


def draw_shares(shares, limit):
    """Plot in which share of a step kernels run.

    Parameters
    ----------
    shares : dict of int to float
        By tokens on each GPU.
    limit : float
        Tokens from which on messages can be hidden.
    """
    _, ax = plt.subplots(figsize=(7, 3), layout="constrained")
    ax.semilogx(list(shares), [100 * share for share in shares.values()], "o-", base=2)
    ax.axvline(limit, color="grey", ls="--")
    ax.text(limit * 1.05, 5, f"F / B = {limit:.0f} tokens", color="grey")
    ax.set(xlabel="tokens per GPU", ylabel="% of a step with kernels (simulated)")
    ax.set(ylim=(0, 100))
    ax.grid(alpha=0.4)
    plt.show()
