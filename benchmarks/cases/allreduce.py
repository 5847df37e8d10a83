"""Allreduce by message size: star and ring in one process against gloo or NCCL over processes.

On CPUs the two sides do different things, and the table says so: ours adds up tensors within one
process's memory, the library's moves them between processes. Where there are k GPUs, both move
them between GPUs.
"""

from functools import partial

import torch
import torch.distributed as dist

from benchmarks.cases import worker
from benchmarks.measure import Row, interleave, repeat
from d2lmini import allreduce, init_params
from d2lmini.collectives import allreduce_bucketed, allreduce_ring
from d2lmini.resnet import resnet18
from simgpu.units import size

KIB, MIB = 2**10, 2**20
NOTES = {
    "cuda": "star, ring: one process, k GPUs; NCCL: k processes",
    "cpu": "star, ring: k tensors in the memory of one process, nothing is sent; gloo: k processes "
    "share the cores and send them through sockets",
}


def rows(settings):
    for k in settings.pick((2, 4), (2,)):
        yield from worker.rows("allreduce", k, settings)


def shared_rows(processes, settings):
    for num_bytes in settings.pick((4 * KIB, 64 * KIB, MIB, 16 * MIB), (4 * KIB, MIB)):
        steps = settings.pick(max(3, min(200, 8 * MIB // num_bytes)), 2)
        yield from one_size(processes, num_bytes, steps, settings)
    models = {"LeNet": init_params(), "ResNet-18": list(resnet18().parameters())}
    for name, params in models.items():
        sizes = [p.numel() for p in params]
        steps = settings.pick(max(1, min(50, 2**21 // sum(sizes))), 1)
        yield from gradients(processes, name, sizes, steps, settings)


def one_size(processes, num_bytes, steps, settings):
    """Sum one tensor a device: star, ring, and the library."""
    sizes = [num_bytes // 4]
    single = [mine[0] for mine in _tensors(processes, sizes)]
    ours = {"star": partial(allreduce, single), "ring": partial(allreduce_ring, single)}
    return _rows(processes, size(num_bytes), ours, sizes, steps, settings)


def gradients(processes, name, sizes, steps, settings):
    """Sum all gradients of a model: tensor by tensor, in buckets, and by the library."""
    data = _tensors(processes, sizes)

    def one_by_one():
        for tensors in zip(*data, strict=True):
            allreduce(list(tensors))

    ours = {
        "star, one by one": one_by_one,
        "star, buckets": partial(allreduce_bucketed, data),
        "ring, buckets": partial(allreduce_bucketed, data, allreduce=allreduce_ring),
    }
    return _rows(processes, f"{name}'s {len(sizes)} gradients", ours, sizes, steps, settings)


def _tensors(processes, sizes):
    """Make tensors of these sizes, in float32, on each device, in the process that works alone."""
    # Zeros: sums of sums do not overflow, however often they are repeated.
    places = processes.devices if processes.rank == 0 else []
    return [[torch.zeros(n, device=place) for n in sizes] for place in places]


def _rows(processes, case, ours, sizes, steps, settings):
    tensors = [torch.zeros(n, device=processes.device) for n in sizes]

    def theirs():
        for tensor in tensors:
            dist.all_reduce(tensor)

    on_gpu = processes.device.type == "cuda"
    library = "NCCL" if on_gpu else "gloo"
    variants = {label: processes.alone(repeat(f, steps)) for label, f in ours.items()}
    variants[library] = processes.together(repeat(theirs, steps))
    sides = {label: s.per_step(steps) for label, s in interleave(variants, settings).items()}
    # On CPUs the library moves bytes between processes, ours does not: no ratio between them.
    first = sides[library if on_gpu else next(iter(sides))]
    for label, side in sides.items():
        peer = None if side is first or label == library else first
        what = f"k = {processes.k}, {case}: {label}"
        yield Row("allreduce", what, "s", side, peer, note=NOTES[processes.device.type])
