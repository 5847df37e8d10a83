"""Run a solution on simulated ranks, and compare with what is right."""

import torch
import torch.distributed as dist

import simgpu as sim
from simgpu.timeline import Timeline

HOW = {"gpu": "a100", "link": "nvlink3"}


def draw(*shape, seed=0):
    """Return random numbers in 64 bits, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def on_ranks(given, function, ranks):
    """Run ``function(rank, device)`` on ranks; return tensors on the host, and the timeline."""

    def program(rank):
        dist.init_process_group()
        result = function(rank, torch.accelerator.current_accelerator())
        return result.detach().cpu() if isinstance(result, torch.Tensor) else result

    with given.running():
        results = sim.spawn(program, nprocs=ranks, **HOW)
    return results, Timeline(sim.trace()).lanes()


def is_right(got, right):
    """Return whether two tensors are equal but for rounding."""
    return torch.allclose(got, right, rtol=0, atol=1e-9)
