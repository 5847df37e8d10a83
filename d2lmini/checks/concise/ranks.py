"""Programs of several ranks, each with its own simulated GPU."""

import torch
import torch.distributed as dist

import simgpu as sim


def on_ranks(solution, nprocs, program):
    """Return what ``program(rank, device)`` returns on each rank, all in one process group."""

    def run(rank):
        dist.init_process_group()
        result = program(rank, torch.accelerator.current_accelerator())
        dist.destroy_process_group()
        return result

    with solution.running():  # with its time limit
        return sim.spawn(run, nprocs=nprocs)
