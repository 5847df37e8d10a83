"""Simulated GPUs: what simulating costs, against the same program on the CPU.

Measured in processor time: on an idle machine it is the time that passes, and on a busy one it does
not count the others'.
"""

import statistics
import time

import torch
from torch.nn import functional as F

from benchmarks.measure import Row, Side, interleave, per_step
from d2lmini import get_params, init_params, sim, train_batch
from d2lmini.resnet import resnet18

PER_OPERATION = 60e-6  # seconds, the median over OPERATIONS
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
    return [*overhead(settings), lenet(settings), resnet(settings)]


def overhead(settings):
    """Seconds that one operation takes longer than on the CPU."""
    calls = settings.pick(CALLS, 5)
    (device,) = sim.configure(1)
    per_name = {}
    for name, run in OPERATIONS.items():
        variants = {
            side: _timed(_times(run, torch.ones(4, 4, device=where), calls))
            for side, where in (("simulated", device), ("cpu", torch.device("cpu")))
        }
        sides = interleave(variants, settings)
        per_name[name] = per_step(sides["simulated"], calls), per_step(sides["cpu"], calls)
        sim.reset()
    samples = [
        statistics.median(ours.samples[i] - cpu.samples[i] for ours, cpu in per_name.values())
        for i in range(settings.repetitions)
    ]
    limit = Side("60 microseconds", [PER_OPERATION] * settings.repetitions)
    case = f"overhead of one operation, median over {len(OPERATIONS)}"
    yield Row("sim", case, "s", Side("simulated - cpu", samples), limit, goal=1.0, note=NOTE)
    for name, (ours, cpu) in per_name.items():
        yield Row("sim", f"{name} of 4 x 4", "s", ours, cpu, note=NOTE)


def lenet(settings):
    """Training steps of LeNet on two simulated devices, and with two replicas on the CPU."""
    batch_size, steps = settings.pick(256, 8), settings.pick(5, 1)
    X, y = torch.rand(batch_size, 1, 28, 28), torch.randint(10, (batch_size,))
    devices = sim.configure(2)
    variants = {}
    for label, where in (("simulated", devices), ("cpu", [torch.device("cpu")] * 2)):
        params = [get_params(init_params(), device) for device in where]
        step = _step(X, y, params, where)
        variants[label] = _timed(_times(step, None, steps))
    sides = interleave(variants, settings)
    ours, cpu = (per_step(sides[label], steps) for label in ("simulated", "cpu"))
    case = f"LeNet, a step of {batch_size} images, 2 devices"
    return Row("sim", case, "s", ours, cpu, goal=1 / LENET_SLOWDOWN, note=NOTE)


def resnet(settings):
    """One data-parallel step of ResNet-18 on eight devices, shapes only."""
    k = settings.pick(8, 2)
    devices = sim.configure(k, gpu="a100", link="nvlink3", numerics=False)
    nets = [resnet18().to(device) for device in devices]
    optimisers = [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in nets]
    images = [torch.empty(256, 1, 28, 28, device=device) for device in devices]
    labels = [torch.zeros(256, dtype=torch.long, device=device) for device in devices]

    def step(_):
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

    side = interleave({"simulated": _timed(_times(step, None, 1))}, settings)["simulated"]
    limit = Side("1 second", [RESNET_SECONDS] * settings.repetitions)
    case = f"ResNet-18, a step of 256 images a device, {k} devices, shapes only"
    return Row("sim", case, "s", side, limit, goal=1.0, note=NOTE)


def _timed(function):
    """Return a function that calls `function` and returns the processor time that it took."""

    def seconds():
        start = time.process_time()
        function()
        return time.process_time() - start

    return seconds


def _step(X, y, params, devices):
    return lambda _: train_batch(X, y, params, devices, 0.2)


def _times(run, x, calls):
    def repeat():
        for _ in range(calls):
            run(x)

    return repeat
