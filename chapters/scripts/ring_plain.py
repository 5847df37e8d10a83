"""Sum by a ring and by a tree of sends, and compare with the library's sum.

Two processes on the CPU:

    torchrun --standalone --nproc-per-node 2 ring_plain.py --cpu

Two simulated GPUs:

    simgpu run --nproc-per-node 2 ring_plain.py
"""

import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--cpu", action="store_true", help="use no GPU")
parser.add_argument("--save", help="file for the sums of random numbers")
args = parser.parse_args()


def exchange(outgoing, incoming):
    ops = [dist.P2POp(dist.isend, x, peer) for peer, x in outgoing.items()]
    ops += [dist.P2POp(dist.irecv, x, peer) for peer, x in incoming.items()]
    works = dist.batch_isend_irecv(ops) if ops else []
    for work in works:
        work.wait()


def ring(x, ranks=None):
    ranks = ranks or list(range(dist.get_world_size()))
    n, me = len(ranks), ranks.index(dist.get_rank())
    left, right = ranks[me - 1], ranks[(me + 1) % n]
    chunks = x.tensor_split(n)  # parts of x, not copies
    for step in range(2 * (n - 1)):
        mine, theirs = chunks[(me - step) % n], chunks[(me - step - 1) % n]
        arrived = torch.empty_like(theirs)
        exchange({right: mine}, {left: arrived})
        if step < n - 1:
            theirs += arrived
        else:
            theirs.copy_(arrived)


def tree(x):
    n, rank = dist.get_world_size(), dist.get_rank()
    gaps = [2**i for i in range((n - 1).bit_length())]
    for gap in gaps:  # up: 1, 2, 4, ...
        if rank % (2 * gap) == gap:
            dist.send(x, rank - gap)
        elif rank % (2 * gap) == 0 and rank + gap < n:
            arrived = torch.empty_like(x)
            dist.recv(arrived, rank + gap)
            x += arrived
    for gap in gaps[::-1]:  # and down again
        if rank % (2 * gap) == gap:
            dist.recv(x, rank - gap)
        elif rank % (2 * gap) == 0 and rank + gap < n:
            dist.send(x, rank + gap)


device = torch.device("cpu")
if torch.accelerator.is_available() and not args.cpu:
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
dist.init_process_group("gloo" if args.cpu else None)
rank, n = dist.get_rank(), dist.get_world_size()

whole = torch.arange(100_000.0) % 100 + rank
generator = torch.Generator().manual_seed(rank)
random = torch.randn(100_000, generator=generator)
sums = {}
for allreduce in (ring, tree, dist.all_reduce):
    for kind, numbers in (("whole", whole), ("random", random)):
        x = numbers.clone().to(device)
        allreduce(x)
        sums[kind, allreduce.__name__] = x.cpu()
if rank == 0:
    for name in ("ring", "tree"):
        equal = torch.equal(sums["whole", name], sums["whole", "all_reduce"])
        print(f"{n} ranks, {name} gives the sum: {equal}")
    if args.save:
        kept = {name: sums["random", name] for name in ("ring", "tree")}
        torch.save(kept, args.save)
dist.destroy_process_group()
