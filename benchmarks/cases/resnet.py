"""ResNet-18: training steps in several number and memory formats, against d2l's network."""

import contextlib
import shutil

import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.cases.machine import product
from benchmarks.cases.peers import load_d2l
from benchmarks.measure import Row, interleave, repeat, timed
from d2lmini import try_gpu
from d2lmini.resnet import resnet18

GPU_GOAL = 3.0
D2L = "d2l.resnet18, float32"


def rows(settings):
    d2l, device = load_d2l(), try_gpu()
    on_gpu = device.type == "cuda"
    batch_size, steps = settings.pick(256 if on_gpu else 32, 4), 10 if on_gpu else 1
    nets = {D2L: trainer(d2l.resnet18(10), device, batch_size)}
    for name, options in formats(device, settings).items():
        nets[name] = trainer(resnet18(), device, batch_size, **options)
    variants = {label: timed(repeat(step, steps), device) for label, step in nets.items()}
    kinds = "float32", "bfloat16"
    products = {kind: product(settings, device, getattr(torch, kind)) for kind in kinds}
    variants |= {name: run for name, run, _ in products.values()}
    sides = interleave(variants, settings, warm_up=2 if on_gpu else 1)
    case = f"{device.type}: ResNet-18, {batch_size} images a step: "
    rates = {label: sides[label].rate(batch_size * steps) for label in nets}
    yield from against_d2l(case, rates, on_gpu)
    flops = steps * count_flops(nets["float32"])
    for kind, (name, _, amount) in products.items():
        most = sides[name].rate(amount).called("matrix product")
        yield against_product(case + kind, sides[kind].rate(flops), most)


def against_d2l(case, rates, on_gpu):
    """Compare images per second with d2l's."""
    peer = rates.pop(D2L)
    best = max(rates.values(), key=lambda side: side.median)
    for label, side in rates.items():
        goal = GPU_GOAL if on_gpu and side is best else None
        yield Row("resnet", case + label, "images/s", side, peer, goal=goal)


def against_product(case, rate, most):
    """Compare the FLOP/s of training with those of a plain matrix product."""
    note = "FLOP/s: FLOPs of products and convolutions, backward included"
    if torch.cuda.is_available():
        note += "; float32 convolutions may use TF32, which is faster than float32 products"
    case += ", share of a matrix product's FLOP/s"
    return Row("resnet", case, "FLOP/s", rate, most, note=note)


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
    """Return whether torch.compile finds the compiler that it needs."""
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
