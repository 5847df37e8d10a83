"""A plan is made once for all regions that do the same."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

import simgpu as sim
from simgpu.compiled import plan
from simgpu.compiled.regions import Region, Settings


@pytest.fixture
def made(monkeypatch):
    """Begin without plans; what plans are made of."""
    found, own = [], plan._make

    def make(recorded):
        found.append(recorded)
        return own(recorded)

    monkeypatch.setattr(plan, "_make", make)
    monkeypatch.setattr(plan, "_plans", {})
    return found


@pytest.fixture
def device():
    (device,) = sim.configure(1, numerics=False)
    return device


def network():
    return nn.Sequential(
        nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 16), nn.LayerNorm(16)
    )


def train(model, call, optimizer, size=8):
    device = next(model.parameters()).device
    call(torch.randn(size, 16, device=device)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("name", ["AdamW", "SGD", "Adam", "RMSprop"])
def test_the_second_step_of_a_training_makes_none(name, device, made):
    model = network().to(device)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-3)
    optimizer.step = Region(optimizer.step)
    counts = []
    for _ in range(5):
        train(model, Region(model), optimizer)
        counts.append(len(made))
    assert counts[0] == 3  # forward, backward, optimizer
    assert len(set(counts[1:])) == 1  # the first step of an optimizer has to make its state


def test_a_rate_that_changes_makes_none(device, made):
    model = network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    step = Region(optimizer.step)
    counts = []
    for i in range(4):
        model(torch.randn(8, 16, device=device)).sum().mul(0.5**i).backward()
        step()
        schedule.step()
        counts.append(len(made))
    assert counts[1:] == counts[1:2] * 3


def test_another_shape_makes_others(device, made):
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    call = Region(model)
    for size, expected in ((8, 2), (8, 2), (4, 4), (8, 4), (2, 6)):
        train(model, call, optimizer, size)
        assert len(made) == expected
    assert len(call.record.plans) == 6


def test_another_dtype_or_mode_makes_others(device, made):
    model = network().to(device)
    x = torch.randn(8, 16, device=device)
    region = Region(model)
    region(x)
    with torch.no_grad():
        region(x)  # nothing is kept
    with torch.autocast("sim", torch.bfloat16):
        region(x)
    model.eval()
    region(x)
    assert len(made) == len(region.record.plans) == 4


def test_what_is_read_later_makes_another(device, made):
    x = torch.randn(8, 16, device=device)
    for out in (lambda x, y: y, lambda x, y: (x, y)):
        Region(lambda x, out=out: out(x.sin(), x.cos()))(x)
    assert len(made) == 2


def test_equal_layers_share_one(device, made):
    layers = [Region(network().to(device)) for _ in range(4)]
    x = torch.randn(8, 16, device=device)
    for layer in layers:
        x = layer(x)
    x.sum().backward()
    assert len(made) == 3  # the first layer's input has no gradient
    assert all(sum(layer.record.plans.values()) == 2 for layer in layers)


def test_ranks_share_them(made):
    def program(rank):
        dist.init_process_group()
        torch.manual_seed(0)
        device = torch.accelerator.current_accelerator()
        model = network().to(device)
        for _ in range(2):
            x = torch.randn(8, 16, device=device)
            Region(model)(x).square().mean().backward()
            model.zero_grad()

    sim.spawn(program, nprocs=8, numerics=False)
    assert len(made) == 2


def test_there_are_no_more_than_the_most(device, made, monkeypatch):
    monkeypatch.setattr(plan, "MOST_PLANS", 3)
    region = Region(lambda x: x.sin().cos())
    for n in (1, 2, 3, 4, 5, 5):
        region(torch.randn(n, device=device))
        assert len(plan._plans) <= 3
    assert len(made) == 5
    region(torch.randn(1, device=device))  # it was the first to go
    assert len(made) == 6


def test_a_plan_holds_no_tensor(device, made):
    """Plans outlive devices."""
    model = network().to(device)
    Region(model)(torch.randn(8, 16, device=device)).sum().backward()
    model.zero_grad()
    own = sum(p.numel() * 4 for p in model.parameters())
    assert len(made) == 2
    assert sim.memory_allocated() < own + 512 * 10


@pytest.mark.timeout(60)
def test_a_step_of_many_tensors_is_planned_in_time(device, made):
    """What is computed for one tensor of a list is not what is computed for all of them."""
    weights = [torch.randn(64, 64 + i, device=device, requires_grad=True) for i in range(40)]
    optimizer = torch.optim.AdamW(weights, foreach=True)
    for group in optimizer.param_groups:
        group["capturable"] = True  # as compilers ask for: all of it on the GPU
    step = Region(optimizer.step)
    for _ in range(3):
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        step()
    assert len(made) == 2


def test_with_static_shapes_there_are_kernels_for_some(device):
    region = Region(lambda x: (x + 1) * 2, Settings(most_shapes=2))
    xs = [torch.ones(n, device=device) for n in (2, 3, 4, 2)]
    sim.reset()
    for x in xs[:2]:
        region(x)
    with pytest.warns(UserWarning, match="more than 2 shapes"):
        region(xs[2])
    region(xs[3])
    names = [span.name for span in sim.trace() if span.engine == "compute"]
    fused = "triton_poi_fused_add_mul"
    assert names == [fused, fused, "add", "mul", fused]
