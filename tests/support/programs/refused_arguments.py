"""Calls with host tensors of which gloo refuses some: what it does is the reference."""

import datetime

import torch
import torch.distributed as dist
from torch import empty, ones
from torch.distributed import ReduceOp


def calls(rank):
    """Return the calls of one of two ranks, by name; each fails on both ranks, or on none."""
    rows = torch.arange(16.0).view(4, 4)
    pair = ones(2, dtype=torch.complex64)
    on_root = [lambda n: None, lambda n: [empty(n) for _ in range(2)]][rank == 0]
    return {
        "average": lambda: dist.all_reduce(ones(4), op=ReduceOp.AVG),
        "average of integers": lambda: dist.all_reduce(ones(4).int(), op=ReduceOp.AVG),
        "average of bools": lambda: dist.all_reduce(ones(4).bool(), op=ReduceOp.AVG),
        "bits": lambda: dist.all_reduce(ones(4).int(), op=ReduceOp.BAND),
        "bits of floats": lambda: dist.all_reduce(ones(4), op=ReduceOp.BAND),
        "scaled": lambda: dist.all_reduce(ones(4), op=dist._make_nccl_premul_sum(2.0)),
        "int16": lambda: dist.all_reduce(ones(4).short()),
        "int16, broadcast": lambda: dist.broadcast(ones(4).short(), 0),
        "float8": lambda: dist.broadcast(ones(4).to(torch.float8_e4m3fn), 0),
        "bfloat16": lambda: dist.all_reduce(ones(4).bfloat16()),
        "complex": lambda: dist.all_reduce(pair),
        "complex to a rank": lambda: dist.reduce(pair, 0),
        "greatest complex": lambda: dist.reduce(pair, 0, op=ReduceOp.MAX),
        "strided": lambda: dist.all_reduce(rows.t()),
        "strided exchange": lambda: dist.all_to_all_single(empty(4, 4), rows.t()),
        "list of three": lambda: dist.all_gather([empty(4)] * 3, ones(4)),
        "list of larger": lambda: dist.all_gather([empty(5), empty(5)], ones(4)),
        "uneven list": lambda: dist.all_gather([empty(1), empty(2)], ones(1 + rank)),
        "three inputs": lambda: dist.reduce_scatter(empty(4), [ones(4)] * 3),
        "exchange of three": lambda: dist.all_to_all([empty(4)] * 3, [ones(4)] * 3),
        "larger output": lambda: dist.all_gather_into_tensor(empty(9), ones(4)),
        "splits": lambda: dist.all_to_all_single(empty(4), ones(4), [1, 2], [2, 2]),
        "three splits": lambda: dist.all_to_all_single(empty(4), ones(4), [1, 1, 2], [1, 1, 2]),
        "types": lambda: dist.all_gather_into_tensor(empty(8).double(), ones(4)),
        "gathered": lambda: dist.gather(ones(4), on_root(4)),
    }


def outcome(call):
    """Make a call, and say what became of it."""
    try:
        call()
    except (RuntimeError, ValueError):
        return "refused"
    return "accepted"


def run_in_process(rank, folder):
    """Make all calls as one of two processes, over gloo; save which of them it refuses."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timeout)
    out = {name: outcome(call) for name, call in calls(rank).items()}
    if rank == 0:
        torch.save(out, f"{folder}/out.pt")
    dist.destroy_process_group()
