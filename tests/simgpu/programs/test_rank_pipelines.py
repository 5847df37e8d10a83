"""Unmodified pipeline schedules, against one process."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from support.programs.rank_models import BATCH, OUT, WIDTH, largest_difference, sgd
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import simgpu as sim

LAYERS, MICRO_BATCHES, STEPS = 8, 8, 2


def layers():
    torch.manual_seed(0)
    body = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS - 1)]
    return nn.Sequential(*body, nn.Linear(WIDTH, OUT))


def data():
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(STEPS, BATCH, WIDTH, generator=generator)
    return zip(x, torch.randn(STEPS, BATCH, OUT, generator=generator), strict=True)


def train_alone():
    model = layers()
    optimizer, losses = sgd(model.parameters()), []
    for x, y in data():
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return model.state_dict(), losses


SINGLE = ("ScheduleGPipe", "Schedule1F1B")
INTERLEAVED = ("ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble")
V_SHAPED = ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")


def places(name, rank, k):
    """Return the stages of a rank."""
    if name in SINGLE:
        return [rank]
    return [rank, k + rank] if name in INTERLEAVED else [rank, 2 * k - 1 - rank]


def train(rank, name, k, wrap=lambda part, mesh: part, replicas=1):
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    mesh = init_device_mesh(device.type, (k, replicas), mesh_dim_names=("pp", "dp"))
    place, group = mesh["pp"].get_local_rank(), mesh["pp"].get_group()
    mine = places(name, place, k)
    total = k * len(mine)
    per_stage = LAYERS // total
    numbers = [range(stage * per_stage, (stage + 1) * per_stage) for stage in mine]
    whole = layers()
    parts = [nn.Sequential(*(whole[i] for i in ns)).to(device) for ns in numbers]
    wrapped = [wrap(part, mesh["dp"]) for part in parts]
    stages = [
        PipelineStage(part, stage, total, device, group=group)
        for part, stage in zip(wrapped, mine, strict=True)
    ]
    schedule = getattr(schedules, name)(
        stages[0] if name in SINGLE else stages, MICRO_BATCHES, loss_fn=F.mse_loss
    )
    optimizer, losses = sgd([p for part in wrapped for p in part.parameters()]), []
    for x, y in data():
        x, y = (t.chunk(replicas)[mesh["dp"].get_local_rank()].to(device) for t in (x, y))
        found = []
        schedule.step(
            *([x] if 0 in mine else []),
            **({"target": y, "losses": found} if total - 1 in mine else {}),
        )
        optimizer.step()
        optimizer.zero_grad()
        losses += [torch.stack(found).mean().item()] if found else []
    state = {}
    for part, ns in zip(parts, numbers, strict=True):
        for local, i in enumerate(ns):
            for key, value in part[local].state_dict().items():
                value = value.full_tensor() if isinstance(value, DTensor) else value
                state[f"{i}.{key}"] = value.cpu()
    return state, losses


def check(k, *args, replicas=1, **kwargs):
    reference, losses = train_alone()
    out = sim.spawn(
        lambda rank: train(rank, *args, k, replicas=replicas, **kwargs), nprocs=k * replicas,
        gpu="h100", link="nvlink4",
    )  # fmt: skip
    states = {}
    for state, _ in out:
        states |= state
    assert largest_difference(states, reference) < 1e-6
    return [found for _, found in out if found], losses


@pytest.mark.sample(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", SINGLE + INTERLEAVED + V_SHAPED)
@pytest.mark.parametrize("k", [2, 4])
def test_a_pipeline_trains_as_one_process(name, k):
    found, losses = check(k, name)
    assert found == [pytest.approx(losses, rel=1e-5)]


def test_pipeline_and_data_parallel():
    def wrap(part, mesh):
        return DistributedDataParallel(part, process_group=mesh.get_group())

    check(2, "Schedule1F1B", wrap=wrap, replicas=2)


def test_pipeline_and_sharded_parameters():
    check(2, "Schedule1F1B", wrap=lambda part, mesh: fully_shard(part, mesh=mesh), replicas=2)


def test_stages_greet_both_neighbours():
    """All stages of PyTorch 2.11 do so first, others where schedules do not know their kind."""

    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        stage = PipelineStage(nn.Identity(), rank, 3, device)
        operations = stage._get_init_p2p_neighbors_ops()
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        return [one.tensor.item() for one in operations if one.op is dist.irecv]

    assert sim.spawn(program, nprocs=3) == [[1.0], [0.0, 2.0], [1.0]]


@pytest.mark.slow
def test_one_forward_one_backward_needs_less_memory_than_gpipe():
    def program(rank, name):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        part = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).to(device)
        stage = PipelineStage(part, rank, 4, device)
        schedule = getattr(schedules, name)(stage, 16, loss_fn=F.mse_loss)
        x = torch.empty(8192, 256, device=device)
        schedule.step(*([x] if rank == 0 else []), **({"target": x} if rank == 3 else {}))
        return torch.accelerator.max_memory_allocated()

    peaks = [sim.spawn(program, (name,), nprocs=4)[0] for name in SINGLE]
    assert peaks[1] < 0.7 * peaks[0]
