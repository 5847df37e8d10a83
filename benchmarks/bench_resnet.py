"""ResNet-18: training steps in several number and memory formats, against d2l's network."""

import contextlib
import shutil
from dataclasses import replace

import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.bench_machine import product
from benchmarks.measure import Row, as_rate, interleave, timed
from benchmarks.peers import load_d2l
from d2lmini import try_gpu
from d2lmini.resnet import resnet18

GPU_GOAL = 3.0
LIMITS = (torch.float32, torch.bfloat16)


def rows(settings):
    d2l, device = load_d2l(), try_gpu()
    on_gpu = device.type == "cuda"
    batch_size = settings.pick(256 if on_gpu else 32, 4)
    nets = {"d2l.resnet18, float32": trainer(d2l.resnet18(10), device, batch_size)}
    for name, options in formats(device, settings).items():
        nets[name] = trainer(resnet18(), device, batch_size, **options)
    steps = 10 if on_gpu else 1
    variants = {label: timed(_times(step, steps), device) for label, step in nets.items()}
    limits = {dtype: product(settings, device, dtype) for dtype in LIMITS}
    variants |= {f"product {dtype}": limit[0] for dtype, limit in limits.items()}
    sides = interleave(variants, settings, warm_up=2 if on_gpu else 1)
    reached = {d: as_rate(sides.pop(f"product {d}"), limit[1]) for d, limit in limits.items()}
    reached = {d: replace(side, label="matrix product") for d, side in reached.items()}
    case = f"{device.type}: ResNet-18, {batch_size} images a step: "
    found = against_d2l(case, sides, batch_size * steps, on_gpu)
    gigaflop = steps * count_flops(nets["float32"]) / 1e9
    for label in ("float32", "bfloat16"):
        limit = reached[getattr(torch, label)]
        found.append(against_limit(case + label, as_rate(sides[label], gigaflop), limit))
    return found


def against_d2l(case, sides, images, on_gpu):
    """Compare images per second with the first of the sides."""
    peer, *ours = [as_rate(side, images) for side in sides.values()]
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


def against_limit(case, rate, limit):
    """Compare the FLOP/s of training with those of a plain matrix product."""
    note = "GFLOP/s: FLOPs of products and convolutions, backward included"
    if torch.cuda.is_available():
        note += "; float32 convolutions may use TF32, which is faster than float32 products"
    case += ", share of a matrix product's FLOP/s"
    return Row("resnet", case, "GFLOP/s", rate, limit, higher_is_better=True, note=note)


def count_flops(step):
    """Count the FLOPs of the products and convolutions of a step, backward included."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


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
