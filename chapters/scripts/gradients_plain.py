"""Differentiate collectives, and compare with one process that has all data.

Two processes on the CPU:

    torchrun --standalone --nproc-per-node 2 gradients_plain.py --cpu

Two simulated GPUs:

    simgpu run --nproc-per-node 2 gradients_plain.py
"""

import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--cpu", action="store_true", help="use no GPU")
args = parser.parse_args()


class Collective(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, there, back):
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.back(grad.contiguous()), None, None


def all_gather(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return torch.cat(parts)


def reduce_scatter(x):
    parts = list(x.chunk(dist.get_world_size()))
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts)
    return mine


def all_reduce(x):
    total = x.clone()
    dist.all_reduce(total)
    return total


def all_to_all(x):
    exchanged = torch.empty_like(x)
    dist.all_to_all_single(exchanged, x.contiguous())
    return exchanged


def broadcast(x):
    received = x.clone()
    dist.broadcast(received, 0)
    return received


def reduce(x):
    total = x.clone()
    dist.reduce(total, 0)
    return total if dist.get_rank() == 0 else torch.zeros_like(x)


# What goes forward, what goes back, and the same with all ranks' data as rows.
PAIRS = [
    (
        all_gather,
        reduce_scatter,
        lambda rows: rows.flatten().expand(len(rows), -1),
    ),
    (reduce_scatter, all_gather, lambda rows: rows.sum(0).view(len(rows), -1)),
    (all_reduce, all_reduce, lambda rows: rows.sum(0).expand(len(rows), -1)),
    (
        all_to_all,
        all_to_all,
        lambda rows: (
            rows.view(len(rows), len(rows), -1).transpose(0, 1).flatten(1)
        ),
    ),
    (broadcast, reduce, lambda rows: rows[0].expand(len(rows), -1)),
]


def loss(y, rank):
    return (y**2).sum() * (rank + 1)


device = torch.device("cpu")
if torch.accelerator.is_available() and not args.cpu:
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
dist.init_process_group("gloo" if args.cpu else None)
rank, n = dist.get_rank(), dist.get_world_size()

for there, back, together in PAIRS:
    rows = torch.arange(1.0, 1 + 2 * n * n).view(n, 2 * n)
    mine = rows[rank].to(device).requires_grad_()
    loss(Collective.apply(mine, there, back), rank).backward()
    rows.requires_grad_()
    sum(loss(y, r) for r, y in enumerate(together(rows))).backward()
    same = torch.tensor(torch.equal(mine.grad.cpu(), rows.grad[rank]))
    same = same.int().to(device)
    dist.all_reduce(same, dist.ReduceOp.MIN)
    if rank == 0:
        pair = f"{there.__name__}: {back.__name__} of the gradients"
        print(f"{pair}, exact: {bool(same)}")
dist.destroy_process_group()
