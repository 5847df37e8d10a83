"""ResNet-18: training steps in several number and memory formats, against d2l's network."""

import contextlib
import shutil

import torch
from torch.nn import functional as F

from benchmarks.measure import Row, as_rate, interleave, timed
from benchmarks.peers import load_d2l
from d2lmini import try_gpu
from d2lmini.resnet import resnet18

GPU_GOAL = 3.0


def rows(settings):
    d2l, device = load_d2l(), try_gpu()
    on_gpu = device.type == "cuda"
    batch_size = settings.pick(256 if on_gpu else 32, 4)
    variants = {"d2l.resnet18, float32": trainer(d2l.resnet18(10), device, batch_size)}
    for name, options in formats(device, settings).items():
        net = resnet18(width=settings.pick(64, 16))
        variants[name] = trainer(net, device, batch_size, **options)
    steps = 10 if on_gpu else 1
    timed_variants = {label: timed(_times(f, steps), device) for label, f in variants.items()}
    sides = interleave(timed_variants, settings, warm_up=settings.pick(2, 1))
    rates = [as_rate(side, batch_size * steps) for side in sides.values()]
    peer, *ours = rates
    case = f"{device.type}: ResNet-18, {batch_size} images a step: "
    best = max(ours, key=lambda side: side.median)
    return [
        Row(
            "resnet",
            case + side.label,
            "images/s",
            side,
            peer,
            goal=GPU_GOAL if on_gpu and side is best else None,
            higher_is_better=True,
        )
        for side in ours
    ]


def formats(device, settings):
    """Return the variants that this machine can run, by name."""
    found = {
        "float32": {},
        "bfloat16": {"autocast": True},
        "channels last": {"channels_last": True},
        "bfloat16, channels last": {"autocast": True, "channels_last": True},
    }
    if settings.quick:
        return found
    if can_compile(device):
        best = {"autocast": True, "channels_last": device.type == "cuda"}
        found["bfloat16, compiled"] = {**best, "compiled": True}
    else:
        print("resnet: torch.compile needs a C++ compiler (CPU) or Triton (GPU); left out")
    return found


def can_compile(device):
    """Say whether torch.compile finds the compiler that it needs."""
    if device.type == "cpu":
        return bool(shutil.which("c++") or shutil.which("g++") or shutil.which("clang++"))
    from torch.utils._triton import has_triton

    return has_triton()


def trainer(net, device, batch_size, autocast=False, channels_last=False, compiled=False):
    """Return a function that makes one training step."""
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    net = net.to(device, memory_format=memory_format)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    X = torch.rand(batch_size, 1, 28, 28).to(device, memory_format=memory_format)
    y = torch.randint(10, (batch_size,)).to(device)
    model = torch.compile(net) if compiled else net

    def step():
        kind = torch.autocast(device.type, torch.bfloat16) if autocast else contextlib.nullcontext()
        optimizer.zero_grad()
        with kind:
            loss = F.cross_entropy(model(X), y)
        loss.backward()
        optimizer.step()

    return step


def _times(function, steps):
    def run():
        for _ in range(steps):
            function()

    return run
