"""What the tests of the simulated clock share: a prompt GPU, a product, and what was traced."""

import dataclasses

import torch

import simgpu as sim

# Without launch overhead, what a formula says comes out exactly.
PROMPT = dataclasses.replace(sim.GPUS["v100"], launch_overhead=0.0)
LARGE = 2048  # a product of this size takes 1.5 ms on a V100, a launch 5 microseconds


def square(device, n=LARGE):
    return torch.ones(n, n, device=device)


def settle():
    """Wait for everything and start counting from 0."""
    sim.synchronize()
    sim.reset()


def spans(**wanted):
    return [
        s for s in sim.trace() if all(getattr(s, key) == value for key, value in wanted.items())
    ]


def elapsed(run):
    settle()
    run()
    sim.synchronize()
    return sim.now()


def overlap(first, second):
    return min(first.end, second.end) - max(first.start, second.start)


def allreduce(data):
    """Sum tensors over devices: the first collects and then hands out."""
    for d in data[1:]:
        data[0] += d.to(data[0].device)
    for d in data[1:]:
        d.copy_(data[0])
