"""Compiled models in `torch.distributed` programs: values to the bit, and times that overlap."""

import contextlib

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from support.programs.rank_models import BATCH, OUT, WIDTH, batches, seeded, sgd
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

import simgpu as sim

pytestmark = pytest.mark.usefixtures("compiler")
DDP = nn.parallel.DistributedDataParallel


def whole(tensor):
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().cpu()


def values(model, losses):
    return [*losses, *(whole(v).tolist() for v in model.state_dict().values())]


def train(model, call, loss_of, device, accumulate=1, sync=None):
    """Train on one rank; return losses and parameters."""
    optimizer, losses = sgd(model.parameters()), []
    rank, k = dist.get_rank(), dist.get_world_size()
    for i, (x, y) in enumerate(batches(4)):
        x, y = x.chunk(k)[rank].to(device), y.chunk(k)[rank].to(device)
        last = (i + 1) % accumulate == 0
        with contextlib.nullcontext() if last or sync is None else sync():
            loss = loss_of(call(x), y)
            loss.backward()
        losses.append(loss.item())
        if last:
            optimizer.step()
            optimizer.zero_grad()
    return values(model, losses)


def both(program, nprocs=2, **kwargs):
    """Run a program on ranks, compiled and as eager code; assert that all values are equal."""

    def run(rank, compiled):
        dist.init_process_group()
        return program(torch.accelerator.current_accelerator(), compiled, **kwargs)

    compiled, eager = (sim.spawn(run, (flag,), nprocs=nprocs) for flag in (True, False))
    assert compiled == eager
    assert compiled[0]


def data_parallel(device, compiled, outside=False, accumulate=1, **kwargs):
    model = seeded(norm=True).to(device)
    if compiled and not outside:
        model.compile()
    model = DDP(model, **kwargs)
    call = torch.compile(model) if compiled and outside else model
    sync = model.no_sync if accumulate > 1 else None
    return train(model, call, F.mse_loss, device, accumulate, sync)


@pytest.mark.parametrize(
    "options",
    [
        {"bucket_cap_mb": 0.002, "outside": True}, {"accumulate": 2},
        *(pytest.param(more, marks=pytest.mark.slow) for more in (
            {}, {"outside": True}, {"gradient_as_bucket_view": True}, {"static_graph": True},
            {"find_unused_parameters": True},
        )),
    ],
    ids=str,
)  # fmt: skip
def test_data_parallel(options):
    both(data_parallel, **options)


def sharded(device, compiled, recompute=False, accumulate=1, **kwargs):
    model = seeded().to(device)
    for layer in model.layers:
        if recompute:
            own = layer.forward
            layer.forward = lambda x, own=own: checkpoint(own, x, use_reentrant=False)
        if compiled:
            layer.compile()
        fully_shard(layer, **kwargs)
    fully_shard(model, **kwargs)
    loss_of = torch.compile(F.mse_loss) if compiled else F.mse_loss
    return train(model, model, lambda x, y: loss_of(x.float(), y), device, accumulate)


@pytest.mark.parametrize(
    "options",
    [
        {"recompute": True}, {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)},
        *(pytest.param(more, marks=pytest.mark.slow) for more in (
            {}, {"accumulate": 2}, {"reshard_after_forward": False},
        )),
    ],
    ids=["recomputed", "mixed precision", "plain", "accumulated", "not resharded"],
)  # fmt: skip
def test_fully_sharded(options):
    both(sharded, **options)


TENSOR_PLAN = {"0": ColwiseParallel(), "2": RowwiseParallel()}
SEQUENCE_PLAN = {
    "0": ColwiseParallel(input_layouts=torch.distributed.tensor.Shard(0)),
    "2": RowwiseParallel(output_layouts=torch.distributed.tensor.Shard(0)),
    "3": SequenceParallel(sequence_dim=0),
}


def tensor_parallel(device, compiled, plan, by_layers):
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, OUT), nn.LayerNorm(OUT)
    )
    model = parallelize_module(model.to(device), mesh, plan)
    if compiled:
        for part in model if by_layers else [model]:
            part.compile()

    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), []
    for x, y in batches(3):
        if plan is SEQUENCE_PLAN:
            x, y = (t.chunk(mesh.size())[mesh.get_local_rank()] for t in (x, y))
        out = model(x.to(device))
        out = out.to_local() if isinstance(out, DTensor) else out
        loss = F.mse_loss(out, y.to(device))
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return values(model, losses)


@pytest.mark.parametrize("by_layers", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("plan", [TENSOR_PLAN, SEQUENCE_PLAN], ids=["tensor", "sequence"])
def test_tensor_parallel(plan, by_layers):
    both(tensor_parallel, plan=plan, by_layers=by_layers)


def pipeline(device, compiled, name):
    rank, k = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).to(device) for _ in range(k)]
    part = layers[rank]
    if compiled:
        part.compile()
    stage = PipelineStage(part, rank, k, device)
    schedule = getattr(schedules, name)(stage, 4, loss_fn=F.mse_loss)
    optimizer, losses = sgd(part.parameters()), []
    for x, _ in batches(2, BATCH):
        found = []
        inputs = [x.to(device)] if rank == 0 else []
        last = {"target": torch.ones_like(x).to(device), "losses": found}
        schedule.step(*inputs, **(last if rank == k - 1 else {}))
        optimizer.step()
        optimizer.zero_grad()
        losses += [one.item() for one in found]
    return values(part, losses)


@pytest.mark.parametrize(
    "name", ["Schedule1F1B", pytest.param("ScheduleGPipe", marks=pytest.mark.slow)]
)
def test_pipeline(name):
    both(pipeline, name=name)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)])

    def forward(self, x):
        return self.layers(x)


def step_of_ddp(rank, compiled):
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    model = Wide().to(device)
    if compiled:
        model.compile()
    model = DDP(model, bucket_cap_mb=4)
    x = torch.randn(4096, 1024, device=device)
    for _ in range(2):
        model(x).square().mean().backward()
        model.zero_grad()
    sim.synchronize()
    start = sim.now()
    model(x).square().mean().backward()
    return start


def test_gradients_are_summed_while_the_backward_pass_runs():
    for compiled in (True, False):
        start, _ = sim.spawn(step_of_ddp, (compiled,), nprocs=2, numerics=False, link="nvlink3")
        own = [s for s in sim.trace() if s.device == "rank 0 sim:0" and s.start >= start]
        sums = [span for span in own if span.engine == "comm"]
        computed = [span for span in own if span.engine == "compute"]
        assert len(sums) == 8
        last = max(span.end for span in computed)
        assert sum(span.start < last for span in sums) >= 7
        products = [span for span in computed if "mm" in span.name]
        assert len(products) == 23  # the input of the first layer has no gradient


def peak_of_fsdp(rank, compiled):
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    model = Wide().to(device)
    for layer in model.layers:
        if compiled:
            layer.compile()
        fully_shard(layer)
    fully_shard(model)
    x = torch.randn(256, 1024, device=device)
    for _ in range(2):
        sim.reset_peak_memory_stats()
        model(x).square().mean().backward()
        model.zero_grad()
    return sim.max_memory_allocated(), sim.memory_allocated()


def test_shards_are_freed_as_in_eager_code():
    eager, compiled = (
        sim.spawn(peak_of_fsdp, (flag,), nprocs=2, numerics=False)[0] for flag in (False, True)
    )
    assert compiled[1] == eager[1]
    assert 0.9 * eager[0] < compiled[0] <= eager[0]


class Gelus(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 1024)

    def forward(self, x):
        return F.gelu(F.gelu(F.gelu(self.linear(x))))


def kept_by_fsdp(rank, compiled):
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    layers = nn.Sequential(*[Gelus() for _ in range(4)]).to(device)
    for layer in layers:
        if compiled:
            layer.compile()
        fully_shard(layer, reshard_after_forward=True)
    x = torch.randn(8192, 1024, device=device)
    before = sim.memory_allocated()
    y = layers(x)
    return sim.memory_allocated() - before - y.nbytes


def test_a_sharded_layer_keeps_what_a_compiler_keeps():
    """Hooks of FSDP run inside the region, and read the clock."""
    eager, compiled = (
        sim.spawn(kept_by_fsdp, (flag,), nprocs=2, numerics=False)[0] for flag in (False, True)
    )
    each = 4 * 8192 * 1024
    assert eager == pytest.approx((4 * 3 + 3) * each, rel=0.05)
    assert compiled == pytest.approx((4 + 3) * each, rel=0.05)  # products, and inputs of layers


@pytest.mark.parametrize("as_view", [False, True])
def test_ddp_computes_all_gradients_of_a_compiled_model(as_view):
    def run(rank, wraps):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)]).to(device)
        if wraps:
            model = DDP(model, gradient_as_bucket_view=as_view)
        sim.compile(model)(torch.ones(8, WIDTH, device=device)).sum().backward()
        sim.synchronize()

    def products(wraps):
        sim.spawn(run, args=(wraps,), numerics=False)
        return sum(span.name in ("mm", "addmm") for span in sim.trace())

    assert products(wraps=True) == products(wraps=False) > 8
