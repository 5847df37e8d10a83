"""What the machine can do at most: memory bandwidth and FLOP/s, reached by one plain operation."""

import torch

from benchmarks.measure import Row, as_rate, interleave, timed
from d2lmini import try_gpu


def rows(settings):
    device = try_gpu()
    dtypes = (torch.float32, torch.bfloat16)
    return [copy_row(settings, device), *(product_row(settings, device, d) for d in dtypes)]


def copy_row(settings, device):
    device = torch.device(device)
    size = settings.pick(64 * 2**20, 2**20)  # float32 numbers; far beyond the caches
    source, target = torch.ones(size, device=device), torch.empty(size, device=device)
    side = interleave({"copy": timed(lambda: target.copy_(source), device)}, settings)["copy"]
    gigabytes = 2 * source.nbytes / 1e9  # read and written
    return Row(
        "machine",
        f"{device.type}: copy within memory, bytes read and written",
        "GB/s",
        as_rate(side, gigabytes),
        higher_is_better=True,
    )


def product_row(settings, device, dtype):
    run, gigaflop, name = product(settings, device, dtype)
    side = interleave({"product": run}, settings)["product"]
    rate = as_rate(side, gigaflop)
    return Row("machine", f"{device.type}: {name}", "GFLOP/s", rate, higher_is_better=True)


def product(settings, device, dtype):
    """Return a timed matrix product, its work in GFLOP and its name."""
    n = settings.pick(2048 if device.type == "cpu" else 8192, 256)
    A, B = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    name = f"matrix product {n} x {n}, {str(dtype).removeprefix('torch.')}"
    return timed(lambda: A @ B, device), 2 * n**3 / 1e9, name
