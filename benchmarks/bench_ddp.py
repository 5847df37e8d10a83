"""Weak and strong scaling of the book's training step over processes, against one process alone.

Without GPUs each process has one thread, so that two of them fit on two cores.
"""

import os
from pathlib import Path

import torch

from benchmarks.measure import Row, Side
from d2lmini.ddp import choose_precision, launch

WORKER = Path(__file__).with_name("ddp_rounds.py")

# Images per second of two processes over those of one, on two cores.
GOAL = 1.7


def rows(settings):
    on_gpu = torch.cuda.is_available()
    places = torch.cuda.device_count() if on_gpu else os.cpu_count()
    counts = [k for k in (2, 4, 8) if k <= places] or [2]
    found = []
    for k in counts if on_gpu else counts[:1]:
        found += scaling(k, on_gpu, settings)
    return found


def scaling(k, on_gpu, settings):
    """Measure one process and k of them in turns."""
    width, batch_size = settings.pick((64, 256) if on_gpu else (16, 64), (8, 8))
    sizes = {"--width": width, "--batch-size": batch_size}
    sizes |= {"--steps": settings.pick(20 if on_gpu else 4, 1), "--warm-up": settings.pick(2, 1)}
    sizes |= {"--rounds": settings.repetitions}
    rounds = launch(WORKER, *[part for pair in sizes.items() for part in pair], nproc_per_node=k)
    images = {"alone": batch_size, "weak": k * batch_size, "strong": batch_size // k * k}
    rates = {name: tuple(images[name] / r[name] for r in rounds) for name in images}
    dtype, _ = choose_precision(torch.device("cuda:0" if on_gpu else "cpu"))
    what = f"{'cuda' if on_gpu else 'cpu'}: ResNet-18, width {width}, {str(dtype)[6:]}"
    alone = Side("1 process", rates["alone"])
    common = {"unit": "images/s", "higher_is_better": True, "peer": alone, "x": k}
    weak = f"{what}, {k} processes, {batch_size} images each"
    strong = f"{what}, {k} processes, {batch_size} images together"
    goal = GOAL if k == 2 else None
    return [
        Row("ddp", weak, ours=Side("DDP", rates["weak"]), goal=goal, plot="weak", **common),
        Row("ddp", strong, ours=Side("DDP", rates["strong"]), plot="strong", **common),
    ]
