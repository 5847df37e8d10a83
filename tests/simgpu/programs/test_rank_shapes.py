"""Ranks without values: their clock and memory equal those of ranks that compute."""

import math

import pytest
import torch
import torch.distributed as dist
from test_rank_ddp import DDP
from test_rank_ddp import train as train_ddp
from test_rank_fsdp import train as train_fsdp
from test_rank_pipelines import train as train_pipeline
from test_rank_tensor_parallel import TENSOR_PLAN
from test_rank_tensor_parallel import train as train_tensors

import simgpu as sim

PROGRAMS = {
    "ddp": (train_ddp, lambda model: DDP(model, bucket_cap_mb=0.002)),
    "fsdp": (train_fsdp,),
    "fsdp and tensors": (train_tensors, TENSOR_PLAN, (2, 2)),
    "pipeline": (train_pipeline, "ScheduleInterleaved1F1B", 4),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["ddp", "fsdp", *(pytest.param(n, marks=pytest.mark.exhaustive) for n in [*PROGRAMS][2:])],
)
def test_clock_and_memory_are_those_with_values(name):
    def program(rank):
        train, *args = PROGRAMS[name]
        train(rank, *args)
        return sim.now(), torch.accelerator.max_memory_allocated()

    def run(numerics):
        return sim.spawn(program, nprocs=4, gpu="a100", link="nvlink3", numerics=numerics)

    assert run(False) == run(True)


def test_control_data_have_values_and_other_numbers_are_nan():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        votes = torch.tensor([rank, 2], device=device)
        dist.all_reduce(votes)
        own = torch.arange(4, device=device)[1:] * 2
        everything = [None, None]
        dist.all_gather_object(everything, rank)
        numbers = torch.rand(3, device=device)
        numbers[own[:1]] += votes[0]  # meets what has no values
        copy = torch.zeros(3, dtype=torch.int64, device=device).copy_(numbers)
        return votes.tolist(), own.tolist(), everything, numbers.sum().item(), copy.shape

    for votes, own, everything, number, shape in sim.spawn(program, nprocs=2, numerics=False):
        assert (votes, own, everything, shape) == ([1, 4], [2, 4, 6], [0, 1], (3,))
        assert math.isnan(number)


def test_what_programs_count_in_float64_has_values():
    """As the meters of DETR, DeiT and MAE do: ``int(t[0])`` ended them."""

    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        loss = torch.rand((), device=device)
        meter = torch.tensor([4, 1.5, 0], dtype=torch.float64, device=device)
        meter[2] += loss
        dist.all_reduce(meter)
        count, total, losses = meter.tolist()
        return int(count), total, math.isnan(losses)

    for numerics in (True, False):
        out = sim.spawn(program, nprocs=2, numerics=numerics)
        assert out == [(8, 3.0, not numerics)] * 2


def test_a_scaler_finds_no_infinities():
    """Else it would skip all steps, and the optimiser's states would be missing."""

    def program(rank):
        device = torch.accelerator.current_accelerator()
        layer = torch.nn.Linear(64, 64, device=device)
        optimizer, scaler = torch.optim.Adam(layer.parameters()), torch.amp.GradScaler(device.type)
        for _ in range(2):
            with torch.autocast(device.type, torch.float16):
                loss = layer(torch.ones(8, 64, device=device)).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return len(optimizer.state), scaler.get_scale(), sim.now(), torch.zeros(2, 3).sum().item()

    shapes, values = (sim.spawn(program, nprocs=1, numerics=known)[0] for known in (False, True))
    assert shapes == pytest.approx(values)
    assert values[:2] == (2, 65536.0)
