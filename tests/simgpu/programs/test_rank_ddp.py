"""Unmodified DistributedDataParallel, against one process on the CPU."""

import contextlib

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from support.programs.rank_models import Net, batches, largest_difference, seeded, sgd, train_alone
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join

import simgpu as sim

DDP = nn.parallel.DistributedDataParallel


def train(rank, make_ddp, make=Net, steps=3, clip=None, accumulate=1, **kwargs):
    """Train on one rank; return the state dict, the norms, and the time."""
    dist.init_process_group()
    k, device = dist.get_world_size(), torch.accelerator.current_accelerator()
    model = make(**kwargs)
    if rank == 0:
        model.load_state_dict(seeded(make, **kwargs).state_dict())  # DDP has to hand it to others
    model = make_ddp(model.to(device))
    optimizer, norms = sgd(model.parameters()), []
    for i, (x, y) in enumerate(batches(steps)):
        x, y = x.chunk(k)[rank].to(device), y.chunk(k)[rank].to(device)
        last = (i + 1) % accumulate == 0
        with contextlib.nullcontext() if last else model.no_sync():
            (F.mse_loss(model(x), y) / accumulate).backward()
        if last:
            if clip is not None:
                norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip).item())
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()
    return {n: v.cpu() for n, v in model.module.state_dict().items()}, norms


def run(k, *args, **kwargs):
    def program(rank):
        return train(rank, *args, **kwargs)

    return sim.spawn(program, nprocs=k, gpu="v100", link="nvlink2")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "options",
    [
        {}, {"bucket_cap_mb": 0.002}, {"gradient_as_bucket_view": True}, {"static_graph": True},
        {"find_unused_parameters": True},
        {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.002, "static_graph": True},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("k", [2, 4])
def test_ddp_trains_as_one_process(options, k):
    reference, _ = train_alone()
    for state, _ in run(k, lambda model: DDP(model, **options)):
        assert largest_difference(state, reference) < 1e-6


def test_bucket_views_save_copies():
    def copies(**options):
        run(2, lambda model: DDP(model, **options))
        return sum(span.name == "copy" for span in sim.trace())

    at_the_start = 2 * 28  # each rank's parameters and buffers, in broadcasts
    assert copies(gradient_as_bucket_view=True) == at_the_start < copies()


def test_parameters_without_gradients():
    reference, _ = train_alone(norm=None)
    for state, _ in run(2, lambda model: DDP(model, find_unused_parameters=True), norm=None):
        assert largest_difference(state, reference) < 1e-6


def test_accumulation_without_synchronisation_and_clipping():
    reference, norms = train_alone(steps=4, accumulate=2, clip=0.5)
    for state, own_norms in run(2, DDP, steps=4, accumulate=2, clip=0.5):
        assert largest_difference(state, reference) < 1e-6
        assert own_norms == pytest.approx(norms, rel=1e-5)


def test_synchronised_batch_norm():
    reference, _ = train_alone(norm=True)

    def make_ddp(model):
        return DDP(nn.SyncBatchNorm.convert_sync_batchnorm(model))

    for state, _ in run(2, make_ddp, norm=True):
        assert largest_difference(state, reference) < 1e-5


def test_synchronised_batch_norm_takes_as_long_with_shapes_alone():
    def program(rank):
        dist.init_process_group()
        net = nn.SyncBatchNorm.convert_sync_batchnorm(
            nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
        )
        device = torch.accelerator.current_accelerator()
        ddp = DDP(net.to(device))
        ddp(torch.randn(4, 3, 16, 16, device=device)).sum().backward()
        return sim.now()

    values, shapes = (sim.spawn(program, nprocs=2, numerics=known) for known in (True, False))
    assert shapes == pytest.approx(values, rel=0.02)


@pytest.mark.parametrize(
    ("hook", "tolerance"),
    [
        (default_hooks.allreduce_hook, 1e-6),
        (default_hooks.fp16_compress_hook, 1e-3),
        (default_hooks.bf16_compress_hook, 1e-2),
    ],
)
def test_hooks(hook, tolerance):
    def make_ddp(model):
        ddp = DDP(model, bucket_cap_mb=0.002)
        ddp.register_comm_hook(None, hook)
        return ddp

    reference, _ = train_alone()
    out = [state for state, _ in run(2, make_ddp)]
    assert largest_difference(out[0], out[1]) == 0
    assert 0 < largest_difference(out[0], reference) < tolerance


def test_join_allows_different_numbers_of_batches():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = DDP(seeded().to(device))
        optimizer = sgd(model.parameters())
        with Join([model]):
            for x, y in batches(2 + rank, 8):
                optimizer.zero_grad()
                F.mse_loss(model(x.to(device)), y.to(device)).backward()
                optimizer.step()
        return {n: v.cpu() for n, v in model.module.state_dict().items()}

    # Both ranks have the same batches; in the third step one of two has none: half the gradient.
    model = seeded()
    optimizer = sgd(model.parameters())
    for i, (x, y) in enumerate(batches(3, 8)):
        optimizer.zero_grad()
        (F.mse_loss(model(x), y) / (2 if i == 2 else 1)).backward()
        optimizer.step()
    for state in sim.spawn(program, nprocs=2):
        # By default, gradients are divided by the number of ranks, also of those that are done.
        assert largest_difference(state, model.state_dict()) < 1e-6


def test_buckets_overlap_with_the_backward_pass():
    def program(rank, options):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))).to(device)
        model = DDP(model, **options)
        x = torch.empty(1024, 512, device=device)
        for _ in range(2):  # DDP orders its buckets in the first step
            sim.synchronize()
            start = sim.now()
            model(x).sum().backward()
            sim.synchronize()
        return sim.now() - start

    def step(options):
        return sim.spawn(program, (options,), nprocs=2, gpu="v100", link="pcie3")[0]

    assert step({"bucket_cap_mb": 2}) < 0.95 * step({"bucket_cap_mb": 1000})


def test_using_a_gradient_waits_for_its_bucket():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = DDP(nn.Linear(512, 512).to(device))
        model(torch.empty(2, 512, device=device)).sum().backward()
        issued = sim.now()
        model.module.weight.grad[0, 0].item()
        return issued, sim.now()

    (issued, used), _ = sim.spawn(program, nprocs=2, gpu="v100", link="pcie3")
    ends = [s.end for s in sim.trace() if s.engine == "comm" and s.bytes > 2**20]
    assert issued < max(ends) < used
