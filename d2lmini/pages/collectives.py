"""The chapter on collectives: the ring, and how long messages and sums take on simulated GPUs."""

from dataclasses import replace

import torch
import torch.distributed as dist

import simgpu as sim
from simgpu.network import Network

ETHERNET25 = Network("ethernet25", 1, 25e9 / 8, 15e-6)  # one card of 25 Gbit/s in each machine


def ring(x, ranks=None):
    """Sum a tensor over ranks, in place, by the ring; each rank calls this.

    Parameters
    ----------
    x : torch.Tensor
        Contiguous. Becomes the sum over the ranks.
    ranks : list of int, optional
        In the order in which they sit around the ring; by default all of them, as numbered.
    """
    ranks = ranks or list(range(dist.get_world_size()))
    n, me = len(ranks), ranks.index(dist.get_rank())
    left, right = ranks[me - 1], ranks[(me + 1) % n]
    chunks = x.tensor_split(n)  # parts of x, not copies
    for step in range(2 * (n - 1)):
        mine, theirs = chunks[(me - step) % n], chunks[(me - step - 1) % n]
        arrived = torch.empty_like(theirs)
        send = dist.P2POp(dist.isend, mine, right)
        receive = dist.P2POp(dist.irecv, arrived, left)
        for work in dist.batch_isend_irecv([send, receive]):
            work.wait()
        if step < n - 1:
            theirs += arrived
        else:
            theirs.copy_(arrived)


def sum_seconds(allreduce, nbytes, nprocs=8, **machine):
    """Return the simulated seconds that the slowest rank needs for a sum.

    Parameters
    ----------
    allreduce : callable
        Called on every rank with a tensor of `nbytes` bytes.
    nbytes, nprocs : int
    **machine
        Which GPUs, and what connects them, as in `simgpu.spawn`.
    """
    program = (_seconds_of_sum, (allreduce, nbytes // 4), nprocs)
    return max(sim.spawn(*program, numerics=False, **machine))


def is_exact_sum(allreduce, nprocs, numel):
    """Return whether each rank gets the exact sum of the ranks' numbers, which are whole.

    Parameters
    ----------
    allreduce : callable
    nprocs, numel : int
    """
    wanted = nprocs * (torch.arange(numel) % 100.0) + nprocs * (nprocs - 1) / 2
    found = sim.spawn(_sum, (allreduce, numel), nprocs, nodes=nprocs, network="hdr")
    return all(torch.equal(x, wanted) for x in found)


def _numbers(rank, numel):
    """Return the tensor that this rank adds to the sum."""
    return torch.arange(numel, device=_join()) % 100.0 + rank


def _seconds_of_sum(rank, allreduce, numel):
    """Return how long the sum takes on this rank."""
    x = _numbers(rank, numel)
    return _seconds(lambda: allreduce(x))


def _sum(rank, allreduce, numel):
    """Return, on the host, what this rank holds after the sum."""
    x = _numbers(rank, numel)
    allreduce(x)
    return x.cpu()


def _join():
    """Join the other ranks; return this rank's GPU."""
    dist.init_process_group()
    return torch.accelerator.current_accelerator()


def _seconds(function):
    """Return how long a function takes until the GPU has done all its work."""
    torch.accelerator.synchronize()
    start = sim.now()
    function()
    torch.accelerator.synchronize()
    return sim.now() - start


def random_sums(allreduce, nprocs=8, numel=100_000):
    """Return random numbers of all ranks, a row for each, and the sums that the ranks get."""

    def add(rank):
        x = torch.randn(numel, generator=torch.Generator().manual_seed(rank))
        total = x.to(_join())
        allreduce(total)
        return x, total.cpu()

    return tuple(torch.stack(rows) for rows in zip(*sim.spawn(add, nprocs=nprocs), strict=True))


def message_seconds(nbytes, **machine):
    """Return the simulated seconds of one message from rank 0 to rank 1, on the slower rank."""

    def send(rank):
        x = torch.zeros(nbytes // 4, device=_join())
        return _seconds(lambda: dist.send(x, 1) if rank == 0 else dist.recv(x, 0))

    return max(sim.spawn(send, nprocs=2, numerics=False, **machine))


def messages(allreduce, nbytes=64_000_000, nprocs=4, **machine):
    """Return the messages of a sum as spans of a timeline; the first begins at time 0."""
    sum_seconds(allreduce, nbytes, nprocs, **machine)
    spans = [span for span in sim.trace() if span.engine == "comm"]
    first = min(span.start for span in spans)
    return [replace(span, start=span.start - first) for span in spans]
