"""Weak and strong scaling of the book's training step over processes, against one process alone.

Without GPUs each process has one thread, so that two of them fit on two cores.
"""

import os

import torch

from benchmarks.cases import worker
from benchmarks.measure import Row, interleave, repeat
from chapters.scripts.train_ddp import train_step
from d2lmini import ddp
from d2lmini.resnet import resnet18

GOAL = 1.7  # images per second of two processes over those of one, on two cores


def rows(settings):
    on_gpu = torch.cuda.is_available()
    places = torch.cuda.device_count() if on_gpu else os.cpu_count()
    counts = [k for k in (2, 4, 8) if k <= places] or [2]
    for k in counts if on_gpu else counts[:1]:
        yield from worker.rows("ddp", k, settings)


def shared_rows(processes, settings):
    k, device = processes.k, processes.device
    on_gpu = device.type == "cuda"
    width, full = settings.pick((64, 256) if on_gpu else (16, 64), (8, 8))
    steps, threads = settings.pick(20 if on_gpu else 4, 1), None if on_gpu else 1
    share = full // k
    dtype, _ = ddp.choose_precision(device)
    net = resnet18(width=width).to(device)
    model = ddp.wrap_model(resnet18(width=width).to(device), device)

    def step(net, num_images, batch_size):
        data = ddp.synthetic_images(num_images, seed=processes.rank)
        X, y = (tensor.to(device) for tensor in ddp.pick(data, torch.arange(num_images)))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        return repeat(lambda: train_step(net, optimizer, X, y, batch_size, dtype=dtype), steps)

    variants = {
        "1 process": processes.alone(step(net, full, full), threads),
        "weak": processes.together(step(model, full, full * k), threads),
        "strong": processes.together(step(model, share, share * k), threads),
    }
    images = {"1 process": full, "weak": full * k, "strong": share * k}
    sides = interleave(variants, settings, warm_up=settings.pick(2, 1))
    rates = {label: side.rate(images[label] * steps) for label, side in sides.items()}
    what = f"{device.type}: ResNet-18, width {width}, {str(dtype)[6:]}, {k} processes"
    for scaling, how, goal in (
        ("weak", "each", GOAL if k == 2 else None),
        ("strong", "together", None),
    ):
        case, ours = f"{what}, {full} images {how}", rates[scaling].called("DDP")
        yield Row("ddp", case, "images/s", ours, rates["1 process"], goal=goal)
