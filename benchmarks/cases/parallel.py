"""Data parallelism from scratch: seconds per step on k devices, against DistributedDataParallel."""

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.cases import worker
from benchmarks.cases.lenet import LR, lenet_module
from benchmarks.measure import Row, interleave, repeat
from d2lmini import get_params, init_params, train_batch

BATCH_SIZE = 256


def rows(settings):
    for k in settings.pick((1, 2, 4), (2,)):
        yield from worker.rows("parallel", k, settings)


def shared_rows(processes, settings):
    steps, k, devices = settings.pick(10, 2), processes.k, processes.devices
    kind = devices[0].type
    variants = {
        "train_batch": processes.alone(repeat(from_scratch(devices), steps)),
        "DDP": processes.together(repeat(ddp(processes), steps)),
    }
    if kind == "cuda":
        variants["DataParallel"] = processes.alone(repeat(data_parallel(devices), steps))
    sides = {label: s.per_step(steps) for label, s in interleave(variants, settings).items()}
    mine = sides.pop("train_batch")
    for label, peer in sides.items():
        case = f"{kind}: LeNet, k = {k}, {BATCH_SIZE} images a step, against {label}"
        yield Row("parallel", case, "s", mine, peer, note=NOTES[kind])


NOTES = {
    "cuda": "train_batch: one process, k GPUs; DDP: k processes, NCCL",
    "cpu": "train_batch: the replicas of one process take turns on all cores; DDP: k processes "
    "side by side share the cores, gloo",
}


def batch(size=BATCH_SIZE):
    return torch.rand(size, 1, 28, 28), torch.randint(10, (size,))


def from_scratch(devices):
    (X, y), params = batch(), [get_params(init_params(), device) for device in devices]
    return lambda: train_batch(X, y, params, devices, LR)


def ddp(processes):
    X, y = (tensor.to(processes.device) for tensor in batch(BATCH_SIZE // processes.k))
    net = nn.parallel.DistributedDataParallel(lenet_module().to(processes.device))
    return _step(net, lambda: (X, y))


def data_parallel(devices):
    X, y = batch()
    net = nn.DataParallel(lenet_module().to(devices[0]), devices)
    return _step(net, lambda: (X.to(devices[0]), y.to(devices[0])))


def _step(net, get_batch):
    optimizer = torch.optim.SGD(net.parameters(), LR)

    def step():
        optimizer.zero_grad()
        X, y = get_batch()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()

    return step
