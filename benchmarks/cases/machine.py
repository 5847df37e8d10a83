"""The machine: memory bandwidth and FLOP/s of plain operations, for others to be compared with."""

import torch

from benchmarks.measure import Row, interleave, timed
from d2lmini import try_gpu


def rows(settings):
    device = try_gpu()
    copying, num_bytes = copy(settings, device)
    work = {"copy within memory, bytes read and written": (copying, num_bytes, "copy", "B/s")}
    for dtype in (torch.float32, torch.bfloat16):
        name, run, flops = product(settings, device, dtype)
        work[name] = run, flops, "product", "FLOP/s"
    sides = interleave({name: run for name, (run, *_) in work.items()}, settings)
    for name, (_, amount, label, unit) in work.items():
        rate = sides[name].rate(amount).called(label)
        yield Row("machine", f"{device.type}: {name}", unit, rate)


def copy(settings, device):
    """Return a timed copy, and the bytes that it reads and writes."""
    size = settings.pick(64 * 2**20, 2**20)  # float32 numbers; far beyond the caches
    source, target = torch.ones(size, device=device), torch.empty(size, device=device)
    return timed(lambda: target.copy_(source), device), 2 * source.nbytes


def product(settings, device, dtype):
    """Return the name of a matrix product, the timed product, and its FLOPs."""
    n = settings.pick(2048 if device.type == "cpu" else 8192, 256)
    A, B = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    name = f"matrix product {n} x {n}, {str(dtype).removeprefix('torch.')}"
    return name, timed(lambda: A @ B, device), 2 * n**3
