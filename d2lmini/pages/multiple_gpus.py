"""The chapter on data parallelism from scratch: how long updates and sums take."""

from dataclasses import replace

import torch

import simgpu as sim
from d2lmini.devices import gpus
from d2lmini.recording import record
from d2lmini.resnet import resnet18
from d2lmini.timing import Timer
from d2lmini.training import (
    get_params,
    init_params,
    split_batch,
    train_batch,
    train_networks,
    train_shards,
)
from simgpu import device_name


def max_difference(params, others):
    """Return the largest difference of two lists of tensors, wherever these are."""
    pairs = zip(params, others, strict=True)
    return max((p.detach().cpu() - q.detach().cpu()).abs().max().item() for p, q in pairs)


def step_seconds(k, n=256, there=False, launch=None, steps=3):
    """Return the simulated seconds of an update of LeNet on A100s with NVLink.

    Parameters
    ----------
    k : int
        GPUs.
    n : int
        Images of the minibatch, all shards together.
    there : bool
        Whether the images are on the GPUs already.
    launch : float, optional
        Seconds that a launch takes the host; by default what the book assumes.
    steps : int
        Updates over which the mean is taken.
    """
    gpu = sim.GPUS["a100"]
    if launch is not None:
        gpu = replace(gpu, launch_overhead=launch)
    devices = gpus(k, gpu=gpu, link="nvlink3", numerics=False, quiet=True)
    replicas = [get_params(init_params(), device) for device in devices]
    X, y = torch.zeros(n, 1, 28, 28), torch.zeros(n).long()
    shards, timer = split_batch(X, y, devices), Timer(*devices)
    timer.start()
    for _ in range(steps):
        if there:
            train_shards(*shards, replicas, 0.1)
        else:
            train_batch(X, y, replicas, devices, 0.1)
    return float(timer.stop()) / steps


def measure_sum(allreduce, k, nbytes):
    """Sum tensors over A100s with NVLink; return how long it takes, and the traffic.

    Parameters
    ----------
    allreduce : callable
        Sums a list of tensors, one on each device, in place.
    k, nbytes : int
        GPUs, and bytes of each tensor.

    Returns
    -------
    seconds : float
        Simulated.
    taken : float
        What the busiest device receives, in units of `nbytes`.
    """
    devices = gpus(k, gpu="a100", link="nvlink3", numerics=False, quiet=True)
    data = [torch.ones(nbytes // 4, device=device) for device in devices]
    with record(*devices) as recording:
        allreduce(data)
    timeline = recording.timeline
    taken = dict.fromkeys(map(device_name, devices), 0)
    for span in timeline.spans:
        if span.engine == "p2p":
            taken[span.name.split()[-1]] += span.bytes
    return timeline.end - timeline.start, max(taken.values()) / data[0].nbytes


def resnet_update(k, n=256):
    """Return the timeline of an update of ResNet-18 with n images on k simulated A100s."""
    devices = gpus(k, gpu="a100", link="nvlink3", numerics=False, quiet=True)
    nets = [resnet18(10, 1).to(device) for device in devices]
    X, y = torch.zeros(n, 1, 28, 28), torch.zeros(n).long()
    with record(*devices) as recording:
        train_networks(nets, X, y, devices, lr=0.1)
    return recording.timeline


def count_launches(timeline):
    """Return how many operations the host has launched."""
    return sum(span.engine == "launch" for span in timeline.spans)
