"""Ranks that call collectives, for tests of their arguments."""

import pytest
import torch
import torch.distributed as dist

import simgpu as sim


def run(program, k=2, gpu="a100", **options):
    """Run ``program(rank, device)`` on `k` ranks that form a group; return the results."""

    def with_group(rank):
        dist.init_process_group()
        return program(rank, torch.accelerator.current_accelerator())

    return sim.spawn(with_group, nprocs=k, gpu=gpu, link="nvlink3", **options)


def message(program, k=2, **options):
    """Run a program that fails; return the message."""
    with pytest.raises(sim.RanksError) as caught:
        run(program, k, **options)
    assert not dist.is_initialized()
    return str(caught.value)


def ones(device, *shape, dtype=None):
    """Return ones on a device."""
    return torch.ones(*shape, dtype=dtype, device=device)


def with_channels_last(device, n=2, start=0):
    """Return increasing numbers, from `start` on, in memory with channels last."""
    x = start + torch.arange(n * 48.0).view(n, 3, 4, 4)
    return x.to(device).to(memory_format=torch.channels_last)
