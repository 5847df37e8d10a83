"""Sum by a ring of sends, and by the library, in real processes.

Two processes on the CPU:

    torchrun --standalone --nproc-per-node 2 ring_plain.py
"""

import torch
import torch.distributed as dist


def ring(x):
    """Sum `x` over all ranks, in place."""
    n, rank = dist.get_world_size(), dist.get_rank()
    left, right = (rank - 1) % n, (rank + 1) % n
    chunks = x.tensor_split(n)
    for step in range(2 * (n - 1)):
        mine, theirs = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        arrived = torch.empty_like(theirs)
        sending = dist.isend(mine, right)
        dist.irecv(arrived, left).wait()
        sending.wait()  # before a later step changes this chunk
        if step < n - 1:
            theirs += arrived
        else:
            theirs.copy_(arrived)


dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
x = torch.arange(100_000.0) % 100 + rank
wanted = x.clone()
ring(x)
dist.all_reduce(wanted)
if rank == 0:
    print(f"{world_size} processes, equal sums: {torch.equal(x, wanted)}")
dist.destroy_process_group()
