"""Simulated GPUs: what simulating costs, against the same program on the CPU.

Measured in processor time: on an idle machine it is the time that passes, and on a busy one it does
not count the others'.
"""

import statistics
import time
from functools import partial

import torch
import torch.distributed as dist
from torch.nn import functional as F

from benchmarks.measure import Row, Side, interleave, repeat
from d2lmini import get_params, init_params, sim, train_batch
from d2lmini.resnet import resnet18

PER_OPERATION = 60e-6  # seconds, the median over OPERATIONS
PER_COLLECTIVE = 500e-6  # seconds for each rank that takes part
LENET_SLOWDOWN = 1.3
RESNET_SECONDS = 1.0
CALLS = 200
NOTE = "processor time"

# On 16 elements nothing takes time but the way to the kernel and back.
OPERATIONS = {
    "add": lambda x: x + x,
    "mul_": lambda x: x.mul_(1),
    "sum": lambda x: x.sum(),
    "relu": lambda x: x.relu(),
    "softmax": lambda x: x.softmax(1),
    "mm": lambda x: x @ x,
    "linear": lambda x: F.linear(x, x, x[0]),
    "view": lambda x: x.view(-1),
    "slice": lambda x: x[1:3],
    "cat": lambda x: torch.cat([x, x]),
    "clone": lambda x: x.clone(),
    "zeros": lambda x: torch.zeros(4, 4, device=x.device),
    "to float64": lambda x: x.double(),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "add, backward": lambda x: (x.detach().requires_grad_() + 1).backward(x),
}


def rows(settings):
    yield from overhead(settings)
    yield from collectives(settings)
    yield lenet(settings)
    yield resnet(settings)


def overhead(settings):
    """Seconds that one operation takes longer than on the CPU, in a program and in a rank."""
    (device,) = sim.configure(1)
    per_name = _against_cpu(device, settings)
    yield _extra("overhead of one operation", per_name, settings)
    for name, (simulated, cpu) in per_name.items():
        yield Row("sim", f"{name} of 4 x 4", "s", simulated, cpu, note=NOTE)

    def in_a_rank(rank):
        if rank > 0:  # has nothing to do, but is there
            return None
        return _against_cpu(torch.accelerator.current_accelerator(), settings)

    per_name, _ = sim.spawn(in_a_rank, nprocs=2)
    yield _extra("overhead of one operation in a rank", per_name, settings)


def _against_cpu(device, settings):
    """Measure every operation on a simulated device and on the CPU."""
    calls = settings.pick(CALLS, 5)
    per_name = {}
    for name, run in OPERATIONS.items():
        variants = {}
        for label, where in (("simulated", device), ("cpu", torch.device("cpu"))):
            variants[label] = _timed(partial(run, torch.ones(4, 4, device=where)), calls)
        per_name[name] = _per_step(variants, calls, settings)
    return per_name


def _extra(case, per_name, settings):
    rounds = [
        [simulated.samples[i] - cpu.samples[i] for simulated, cpu in per_name.values()]
        for i in range(settings.repetitions)
    ]
    extra = Side("simulated - cpu", map(statistics.median, rounds))
    case = f"{case}, median over {len(OPERATIONS)}"
    return Row("sim", case, "s", extra, limit=PER_OPERATION, note=NOTE)


def collectives(settings):
    """Seconds that an allreduce takes for each rank that takes part in it."""
    calls = settings.pick(CALLS, 5)
    for ranks in settings.pick((2, 8, 64), (2,)):

        def in_a_rank(rank):
            dist.init_process_group()
            x = torch.ones(16, device=torch.accelerator.current_accelerator())
            found = []
            for _ in range(1 + settings.repetitions):  # the first is unmeasured
                start = time.process_time()
                for _ in range(calls):
                    dist.all_reduce(x)
                torch.accelerator.synchronize()  # so that all of them have been scheduled
                found.append((time.process_time() - start) / (calls * dist.get_world_size()))
            dist.destroy_process_group()
            return found[1:]

        nodes = {"nodes": ranks // 8, "network": "ndr"} if ranks > 8 else {}
        side = Side("simulated", sim.spawn(in_a_rank, nprocs=ranks, gpu="h100", **nodes)[0])
        case = f"allreduce of 16 numbers on {ranks} ranks, for each rank"
        yield Row("sim", case, "s", side, limit=PER_COLLECTIVE, note=NOTE)


def lenet(settings):
    """Training steps of LeNet on two simulated devices, and with two replicas on the CPU."""
    batch_size, steps = settings.pick(256, 8), settings.pick(5, 1)
    X, y = torch.rand(batch_size, 1, 28, 28), torch.randint(10, (batch_size,))
    variants = {}
    for label, where in (("simulated", sim.configure(2)), ("cpu", [torch.device("cpu")] * 2)):
        params = [get_params(init_params(), device) for device in where]
        variants[label] = _timed(partial(train_batch, X, y, params, where, 0.2), steps)
    simulated, cpu = _per_step(variants, steps, settings)
    case = f"LeNet, a step of {batch_size} images, 2 devices"
    return Row("sim", case, "s", simulated, cpu, goal=1 / LENET_SLOWDOWN, note=NOTE)


def resnet(settings):
    """One data-parallel step of ResNet-18 on eight devices, shapes only."""
    k = settings.pick(8, 2)
    devices = sim.configure(k, gpu="a100", link="nvlink3", numerics=False)
    nets = [resnet18().to(device) for device in devices]
    optimisers = [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in nets]
    images = [torch.empty(256, 1, 28, 28, device=device) for device in devices]
    labels = [torch.zeros(256, dtype=torch.long, device=device) for device in devices]

    def step():
        for net, X, y in zip(nets, images, labels, strict=True):
            F.cross_entropy(net(X), y).backward()
        for params in zip(*(net.parameters() for net in nets), strict=True):
            first, *others = [p.grad for p in params]
            for grad in others:
                first += grad.to(first.device)
            for grad in others:
                grad.copy_(first)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
        sim.reset()

    (side,) = _per_step({"simulated": _timed(step, 1)}, 1, settings)
    case = f"ResNet-18, a step of 256 images a device, {k} devices, shapes only"
    return Row("sim", case, "s", side, limit=RESNET_SECONDS, note=NOTE)


def _timed(function, times):
    """Return a function that calls `function` so often; returns the processor time it took."""
    run = repeat(function, times)

    def seconds():
        start = time.process_time()
        run()
        return time.process_time() - start

    return seconds


def _per_step(variants, steps, settings):
    return [side.per_step(steps) for side in interleave(variants, settings).values()]
