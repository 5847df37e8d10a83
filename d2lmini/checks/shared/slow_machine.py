"""Slow simulated hardware, for checkers that read from a trace what waited for what.

Kernels and copies of small matrices take long on it, compared with launches.
"""

from dataclasses import replace

import torch

import simgpu as sim

# One product of two 64 x 64 matrices takes 0.7 ms, a copy of one such matrix 0.7 ms.
GPU = replace(
    sim.GPUS["v100"],
    name="slow",
    flops=dict.fromkeys(sim.GPUS["v100"].flops, 1e9),
    launch_overhead=1e-6,
)
LINK = replace(
    sim.LINKS["pcie3"],
    name="slow",
    bandwidth=2.5e7,
    pageable_bandwidth=2.5e7,
    pageable_to_host=2.5e7,
    peer_bandwidth=2.5e7,
)
CPU = replace(sim.CPUS["laptop4"], name="slow", memory_bandwidth=1e8)
SIZE = 64
EPSILON = 1e-9  # seconds


def matrices(count, seed=0):
    """Draw host matrices, (count, 64, 64), small enough that products of products stay finite."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, SIZE, SIZE, generator=generator) / SIZE**0.5


def close(tensor, wanted):
    """Return whether a result has the right shape and, up to rounding, the right values."""
    return tensor.shape == wanted.shape and torch.allclose(tensor, wanted, atol=1e-4)
