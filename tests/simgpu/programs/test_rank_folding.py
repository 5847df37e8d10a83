"""Folding: one rank in place of many has the clock and the memory of all of them."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from support.programs.rank_models import WIDTH, Net
from test_rank_tensor_parallel import SEQUENCE_PLAN, TENSOR_PLAN, make
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor.parallel import parallelize_module

import simgpu as sim

MORE = pytest.mark.exhaustive


def device_and_end(train):
    """Make a program return the time and the memory of a rank."""

    def program(rank, *args):
        dist.init_process_group()
        train(rank, torch.accelerator.current_accelerator(), *args)
        torch.accelerator.synchronize()
        return sim.now(), torch.accelerator.max_memory_allocated()

    return program


@device_and_end
def ddp(rank, device):
    model = nn.parallel.DistributedDataParallel(Net().to(device), bucket_cap_mb=0.002)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.empty(4, WIDTH, device=device)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@device_and_end
def fsdp(rank, device, tensors=1, plan=TENSOR_PLAN):
    mesh = init_device_mesh(
        device.type, (dist.get_world_size() // tensors, tensors), mesh_dim_names=("dp", "tp")
    )
    model = make().to(device)
    if tensors > 1:
        parallelize_module(model, mesh["tp"], plan)
    for block in model.blocks:
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    words = torch.zeros(2, 8, dtype=torch.int64, device=device)
    for _ in range(2):
        model(words).sum().backward()
    if tensors == 1:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)


@device_and_end
def hsdp(rank, device):
    mesh = init_device_mesh(device.type, (8, 8), mesh_dim_names=("replicas", "shards"))
    model = fully_shard(nn.Linear(WIDTH, WIDTH).to(device), mesh=mesh)
    for _ in range(2):
        model(torch.empty(2, WIDTH, device=device)).sum().backward()


@device_and_end
def pipeline(rank, device, stages):
    replicas = dist.get_world_size() // stages
    mesh = init_device_mesh(device.type, (stages, replicas), mesh_dim_names=("pp", "dp"))
    place = mesh["pp"].get_local_rank()
    part = fully_shard(nn.Linear(WIDTH, WIDTH).to(device), mesh=mesh["dp"])
    stage = PipelineStage(part, place, stages, device, group=mesh["pp"].get_group())
    schedule = schedules.Schedule1F1B(stage, 4, loss_fn=F.mse_loss)
    x = torch.empty(8, WIDTH, device=device)
    for _ in range(2):
        schedule.step(
            *([x] if place == 0 else []), **({"target": x} if place == stages - 1 else {})
        )


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "args", "k", "nodes", "network", "ranks"),
    [
        (ddp, (), 8, 1, None, [0]),
        pytest.param(ddp, (), 16, 2, "hdr", [0], marks=MORE),
        pytest.param(ddp, (), 64, 8, "hdr", [0], marks=MORE),
        (fsdp, (), 8, 1, None, [0]),
        pytest.param(fsdp, (), 16, 2, "hdr", [0], marks=MORE),
        pytest.param(fsdp, (2,), 8, 2, "ethernet100", [0], marks=MORE),
        pytest.param(fsdp, (4,), 16, 2, "hdr", [0], marks=MORE),
        pytest.param(fsdp, (4,), 16, 4, "ethernet100", [0], marks=MORE),
        pytest.param(hsdp, (), 64, 8, "hdr4", [0], marks=MORE),
        pytest.param(fsdp, (2, SEQUENCE_PLAN), 8, 1, None, [0], marks=MORE),
        pytest.param(pipeline, (2,), 8, 1, None, [0, 4], marks=MORE),
        (pipeline, (4,), 16, 2, "hdr", [0, 4, 8, 12]),
        pytest.param(pipeline, (4,), 16, 4, "ethernet100", [0, 4, 8, 12], marks=MORE),
    ],
)
def test_folded_runs_equal_full_runs(program, args, k, nodes, network, ranks):
    options = {"gpu": "a100", "link": "nvlink3", "numerics": False}
    options |= {"nprocs": k, "nodes": nodes, "network": network}
    full = sim.spawn(program, args, **options)
    folded = sim.spawn(program, args, ranks=ranks, **options)
    assert folded == [full[rank] for rank in ranks]
    assert len(set(full)) <= len(ranks)  # same on all folded ranks


def test_a_thousand_ranks_and_their_names():
    options = {"gpu": "a100", "link": "nvlink3", "nodes": 128, "network": "hdr"}
    sim.spawn(ddp, nprocs=1024, ranks=[0, 512], numerics=False, **options)
    spans = sim.trace()
    assert {s.device for s in spans} == {
        "rank 0 host", "rank 0 sim:0", "rank 512 host", "rank 512 sim:0",
    }  # fmt: skip
    assert {s.ranks for s in spans if s.engine == "comm"} == {1024}


def test_ranks_that_differ_are_not_folded():
    @device_and_end
    def uneven(rank, device):
        rows = 3072 if rank == 3 else 4096
        x = torch.empty(rows, 1024, device=device)
        dist.all_reduce((x @ x.T).sum())

    with pytest.raises(sim.RanksError, match="rank 0 cannot stand for rank 3"):
        sim.spawn(uneven, nprocs=4, ranks=[0], numerics=False)


def test_a_rank_that_prints_stands_for_the_others():
    @device_and_end
    def prints(rank, device):
        model = nn.Linear(1024, 1024).to(device)
        for _ in range(3):
            loss = model(torch.empty(256, 1024, device=device)).sum()
            loss.backward()
            dist.all_reduce(model.weight.grad)
            if rank == 0:
                loss.item()

    full = sim.spawn(prints, nprocs=4, numerics=False)
    assert len(set(full)) > 1
    assert sim.spawn(prints, nprocs=4, ranks=[0], numerics=False) == full[:1]
    assert sim.spawn(prints, nprocs=4, ranks="auto", numerics=False) == full[:1]


def test_auto_runs_all_where_no_two_are_the_same():
    """One rank, and a pipeline with one rank a stage."""
    assert len(sim.spawn(ddp, nprocs=1, ranks="auto", numerics=False)) == 1
    assert len(sim.spawn(pipeline, (4,), nprocs=4, ranks="auto", numerics=False)) == 4


@pytest.mark.exhaustive
def test_auto_finds_the_stages_of_a_pipeline():
    options = {"nprocs": 16, "nodes": 2, "network": "hdr", "numerics": False}
    full = sim.spawn(pipeline, (4,), **options)
    assert sim.spawn(pipeline, (4,), ranks="auto", **options) == full[::4]


@MORE
def test_auto_finds_the_one_that_differs_and_names_the_line_if_there_are_too_many():
    @device_and_end
    def uneven(rank, device, other):
        x = torch.empty(512 if other(rank) else 256, 1024, device=device)
        dist.all_reduce((x @ x.T).sum())

    found = sim.spawn(uneven, (lambda rank: rank == 7,), nprocs=8, ranks="auto", numerics=False)
    assert len(found) == 4  # of ranks 0 to 3, 4 and 5, 6, 7
    options = {"nodes": 64, "network": "ndr", "numerics": False}
    with pytest.raises(
        sim.RanksError,
        match=r"rank \d+ cannot stand for rank \d+: it runs mm .* \(test_rank_folding",
    ):
        sim.spawn(uneven, (lambda rank: rank % 2,), nprocs=512, ranks="auto", **options)


def test_a_mistake_of_the_program_is_not_searched_for_ranks():
    runs = []

    def program(rank):
        runs.append(rank)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sim.spawn(program, nprocs=64, nodes=8, network="ndr", ranks="auto", numerics=False)
    assert runs == [0]


@pytest.mark.parametrize("ranks", [[1], [0, 0], [0, 9], []])
def test_invalid_ranks(ranks):
    with pytest.raises(ValueError, match="0 first"):
        sim.spawn(print, nprocs=8, ranks=ranks, numerics=False)


def test_no_values_and_no_messages_to_ranks_that_do_not_run():
    with pytest.raises(ValueError, match="numerics=False"):
        sim.spawn(print, nprocs=8, ranks=[0])
    with pytest.raises(ValueError, match="numerics=False"):
        sim.spawn(print, nprocs=8, ranks="auto")

    @device_and_end
    def message(rank, device):
        dist.send(torch.empty(2, device=device), (rank + 1) % 4)

    with pytest.raises(sim.RanksError, match=r"rank 0 has a message to .* rank 1 \(.*does not run"):
        sim.spawn(message, nprocs=4, ranks=[0], numerics=False)
