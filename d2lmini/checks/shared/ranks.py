"""Run a solution on simulated ranks."""

import torch
import torch.distributed as dist

import simgpu as sim
from simgpu.timeline import Timeline

DEGREES = (1, 2, 4)


def draw(*shape, seed=0):
    """Return normal random numbers, float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def differ(got, right):
    """Return whether two tensors differ by more than rounding."""
    return not torch.allclose(got, right, rtol=0, atol=1e-9)


def on_ranks(solution, function, t):
    """Run ``function(rank, device)`` on t ranks; return the results, and the timeline's lanes."""

    def program(rank):
        dist.init_process_group()
        return to_host(function(rank, torch.accelerator.current_accelerator()))

    with solution.running():  # with its time limit
        results = sim.spawn(program, nprocs=t, gpu="a100", link="nvlink3")
    return results, Timeline(sim.trace()).lanes()


def messages(lanes):
    """Return rank 0's messages."""
    return lanes.get(("rank 0 sim:0", "comm"), [])


def to_host(result):
    """Return what a rank returns, its tensors on the CPU."""
    if isinstance(result, list | tuple):
        return [to_host(item) for item in result]
    return result.detach().cpu() if isinstance(result, torch.Tensor) else result
