"""Data parallelism from scratch: seconds per step on k devices, against DistributedDataParallel."""

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.bench_lenet import LR, lenet_module
from benchmarks.group import processes, uses_cuda
from benchmarks.measure import Row, interleave, per_step, timed
from d2lmini import get_params, init_params, train_batch

BATCH_SIZE = 256


def rows(settings):
    found = []
    for k in (1, 2, 4):
        found += rows_for(k, settings)
    return found


def rows_for(k, settings):
    steps = settings.pick(10, 2)
    devices = [torch.device("cuda", i) if uses_cuda(k) else torch.device("cpu") for i in range(k)]
    X, y = torch.rand(BATCH_SIZE, 1, 28, 28), torch.randint(10, (BATCH_SIZE,))
    params = [get_params(init_params(), d) for d in devices]

    def ours():
        for _ in range(steps):
            train_batch(X, y, params, devices, LR)

    variants = {"train_batch": timed(ours, *devices)}
    with processes(k) as group:
        variants["DDP"] = lambda: group.run("ddp_steps", batch_size=BATCH_SIZE, steps=steps)
        if uses_cuda(k):
            variants["DataParallel"] = timed(_data_parallel(X, y, devices, steps), *devices)
        sides = interleave(variants, settings)
        note = _note(devices[0])
    sides = {label: per_step(side, steps) for label, side in sides.items()}
    case = f"{devices[0].type}: LeNet, k = {k}, {BATCH_SIZE} images a step, against "
    mine = sides.pop("train_batch")
    return [
        Row("parallel", case + label, "s", mine, peer, note=note, x=k)
        for label, peer in sides.items()
    ]


def _note(device):
    if device.type == "cuda":
        return "train_batch: one process, k GPUs; DDP: k processes, NCCL"
    return (
        "train_batch: the replicas of one process take turns on all cores; DDP: k processes side "
        "by side share the cores, gloo"
    )


def _data_parallel(X, y, devices, steps):
    net = nn.DataParallel(lenet_module().to(devices[0]), devices)
    optimizer = torch.optim.SGD(net.parameters(), LR)

    def run():
        for _ in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(net(X.to(devices[0])), y.to(devices[0])).backward()
            optimizer.step()

    return run
