"""What all processes of a `benchmarks.group` run together; each job returns its seconds."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from benchmarks.bench_lenet import LR, lenet_module
from d2lmini import Timer, synchronize

# Tensors and models that are kept from round to round, by the arguments they were made for.
_kept = {}


def forget():
    """Drop what was kept; a DDP model must go before its process group."""
    _kept.clear()


def _keep(key, make):
    if key not in _kept:
        _kept[key] = make()
    return _kept[key]


def device():
    """Return this process's device: its GPU where each process has one."""
    if torch.cuda.device_count() >= dist.get_world_size():
        return torch.device("cuda", dist.get_rank())
    return torch.device("cpu")


def _meet():
    """Wait for all processes."""
    dist.all_reduce(torch.zeros(1))


def _seconds(steps, step):
    timer = Timer(device())
    _meet()
    timer.start()
    for _ in range(steps):
        step()
    synchronize(device())
    _meet()  # the slowest process counts
    return timer.stop()


def allreduce(sizes, steps):
    """Sum tensors of these sizes (float32 numbers) over the processes, one after the other."""
    tensors = _keep(("allreduce", tuple(sizes)), lambda: [torch.ones(n) for n in sizes])
    tensors = [t.to(device()).zero_() for t in tensors]  # zeros do not overflow in the long run

    def step():
        for tensor in tensors:
            dist.all_reduce(tensor)

    return _seconds(steps, step)


def ddp_steps(batch_size, steps):
    """Train LeNet with DistributedDataParallel on `batch_size` images over all processes."""
    local = batch_size // dist.get_world_size()
    net, X, y = _keep(("ddp", batch_size), lambda: _model_and_batch(local))
    optimizer = torch.optim.SGD(net.parameters(), LR)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()

    return _seconds(steps, step)


def _model_and_batch(local):
    place = device()
    net = nn.parallel.DistributedDataParallel(lenet_module().to(place))
    generator = torch.Generator().manual_seed(dist.get_rank())
    X = torch.rand(local, 1, 28, 28, generator=generator).to(place)
    return net, X, torch.randint(10, (local,), generator=generator).to(place)
