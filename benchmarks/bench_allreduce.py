"""Allreduce by message size: star and ring in one process against gloo or NCCL over processes.

On CPUs the two sides do different things, and the table says so: ours adds up tensors within one
process's memory, the library's moves them between processes. Where there are k GPUs, both move
them between GPUs.
"""

import torch

from benchmarks.group import processes, uses_cuda
from benchmarks.measure import Row, interleave, per_step, timed
from d2lmini import allreduce, init_params
from d2lmini.collectives import allreduce_bucketed, allreduce_ring
from d2lmini.resnet import resnet18

KIB, MIB = 2**10, 2**20


def rows(settings):
    found = []
    for k in settings.pick((2, 4), (2,)):
        with processes(k) as group:
            for size in settings.pick((4 * KIB, 64 * KIB, MIB, 16 * MIB), (4 * KIB, MIB)):
                found += one_size(group, size, settings)
            found += gradients(group, "LeNet", [p.numel() for p in init_params()], settings)
            sizes = [p.numel() for p in resnet18().parameters()]
            found += gradients(group, "ResNet-18", sizes, settings)
    return found


def one_size(group, num_bytes, settings):
    """Sum one tensor a device: star, ring, and the library."""
    steps = settings.pick(max(3, min(200, 8 * MIB // num_bytes)), 2)
    data = _tensors(group.k, [num_bytes // 4])
    single = [mine[0] for mine in data]
    variants = {
        "star": _repeat(lambda: allreduce(single), steps, single),
        "ring": _repeat(lambda: allreduce_ring(single), steps, single),
    }
    sizes = [num_bytes // 4]
    return _rows(group, _size(num_bytes), variants, sizes, steps, settings, x=num_bytes)


def gradients(group, name, sizes, settings):
    """Sum all gradients of a model: tensor by tensor, in buckets, and by the library."""
    steps = settings.pick(max(1, min(50, 2**21 // sum(sizes))), 1)
    data = _tensors(group.k, sizes)
    flat = [g for mine in data for g in mine]

    def one_by_one():
        for tensors in zip(*data, strict=True):
            allreduce(list(tensors))

    variants = {
        "star, one by one": _repeat(one_by_one, steps, flat),
        "star, buckets": _repeat(lambda: allreduce_bucketed(data), steps, flat),
        "ring, buckets": _repeat(
            lambda: allreduce_bucketed(data, allreduce=allreduce_ring), steps, flat
        ),
    }
    case = f"{name}'s {len(sizes)} gradients"
    return _rows(group, case, variants, sizes, steps, settings)


def _tensors(k, sizes):
    places = [torch.device("cuda", i) if uses_cuda(k) else torch.device("cpu") for i in range(k)]
    # Zeros: sums of sums do not overflow, however often they are repeated.
    return [[torch.zeros(n, device=place) for n in sizes] for place in places]


def _repeat(function, steps, tensors):
    def run():
        for _ in range(steps):
            function()

    return timed(run, *{t.device for t in tensors})


def _rows(group, case, variants, sizes, steps, settings, x=None):
    library = "NCCL" if uses_cuda(group.k) else "gloo"
    variants = variants | {library: lambda: group.run("allreduce", sizes=sizes, steps=steps)}
    sides = interleave(variants, settings)
    sides = {label: per_step(side, steps) for label, side in sides.items()}
    # On CPUs the library moves bytes between processes, ours does not: no ratio between them.
    first = sides[library if uses_cuda(group.k) else next(iter(sides))]
    note = _note(library)
    case = f"k = {group.k}, {case}: "
    return [
        Row(
            "allreduce",
            case + label,
            "s",
            side,
            None if side is first or label == library else first,
            note=note,
            plot=f"k = {group.k}",
            x=x,
        )
        for label, side in sides.items()
    ]


def _note(library):
    if library == "NCCL":
        return "star, ring: one process, k GPUs; NCCL: k processes"
    return (
        "star, ring: k tensors in the memory of one process, nothing is sent; gloo: k processes "
        "share the cores and send them through sockets"
    )


def _size(num_bytes):
    return f"{num_bytes // MIB} MiB" if num_bytes >= MIB else f"{num_bytes // KIB} KiB"
