"""What simulated ranks are charged for a collective, beside what is predicted for the table."""

import torch
import torch.distributed as dist

from benchmarks.published.families import collectives
from benchmarks.published.families.collectives import num_bytes
from benchmarks.published.page import findings
from benchmarks.published.shared.systems import find_system
from d2lmini import sim
from simgpu.units import quantity, size

SAME = 0.01


def charged(gpus, gpu, link, sizes):
    """Return how long an all-reduce of each size (bytes) takes on simulated ranks, in seconds."""
    sim.spawn(_all_reduces, (sizes,), gpus, gpu=gpu, link=link, numerics=False)
    first = {}
    for span in sim.trace():
        if span.collective == "all_reduce":
            first.setdefault(span.device, []).append(span.duration)
    return next(iter(first.values()))


def _all_reduces(rank, sizes):
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    for total in sizes:
        x = torch.empty(total, dtype=torch.uint8, device=device)
        dist.all_reduce(x)
        sim.synchronize()


def sentence(found):
    """Say whether simulated ranks are charged what is predicted for the sizes of the sweep.

    Each rank launches for itself: what one thread that launches on all GPUs adds does not count.
    """
    swept = findings.sweep(found)
    row, sizes = swept[0][0], [num_bytes(row) for row, _ in swept]
    cluster, _ = find_system(row["system"], int(row["gpus"]), 1)
    seconds = charged(cluster.world_size, cluster.gpu, cluster.link, sizes)
    alone = [collectives.predict({**row, "source": ""}).predicted for row, _ in swept]
    shares = [a / b for a, b in zip(seconds, alone, strict=True)]
    if all(abs(share - 1) < SAME for share in shares):
        return (
            "On the device, simulated ranks (`sim.spawn`, `simgpu run`) are charged exactly the "
            "predicted times."
        )
    words = [
        f"{quantity(seconds[i], 's')} for {size(sizes[i])}, {shares[i]:.2f} times what is "
        "predicted here"
        for i in (0, -1)
    ]
    return (
        "On the device, simulated ranks (`sim.spawn`, `simgpu run`) are charged other times than "
        f"those compared here: {', and '.join(words)}."
    )
