"""An error in compiled code leaves the device as it was: it charges, and counts its memory."""

import dataclasses

import pytest
import torch
from support.programs.clock_programs import PROMPT, spans
from support.programs.failing import FailsBackward
from torch import nn

import simgpu as sim
from simgpu.clock.current import find_device
from simgpu.clock.memory import Memory
from simgpu.compiled.regions import Region

N = 2048
SIZE = 4 * N * N


def assert_charges(device):
    """Assert that eager code takes time and memory again."""
    sim.synchronize()
    own = find_device(device)
    assert own.sink is own
    assert type(own.memory) is Memory
    sim.reset()
    before = sim.memory_allocated()
    x = torch.ones(N, N, device=device)
    x = x * 2
    assert [s.name for s in spans(engine="compute")] == ["ones", "mul"]
    assert sim.memory_allocated() == before + SIZE


def wrong_shapes(x):
    return x * 2 @ torch.ones(3, 3, device=x.device)


def own_error(x):
    x = x * 2
    raise KeyError("mine")


def no_memory(x):
    return [x + i for i in range(10)]


@pytest.mark.parametrize(
    ("function", "kind"),
    [(wrong_shapes, RuntimeError), (own_error, KeyError), (no_memory, torch.OutOfMemoryError)],
)
@pytest.mark.parametrize("trains", [False, True])
def test_in_a_function(function, kind, trains):
    gpu = dataclasses.replace(PROMPT, memory=6 * SIZE)
    (device,) = sim.configure(1, gpu=gpu, numerics=False)
    x = torch.ones(N, N, device=device, requires_grad=trains)
    with pytest.raises(kind):
        Region(function)(x)
    assert sim.memory_allocated() == SIZE
    assert_charges(device)


@pytest.mark.parametrize("ends", ["in the region", "before it"])
def test_in_a_backward_pass(ends):
    (device,) = sim.configure(1)
    x = torch.ones(N, N, device=device, requires_grad=True)
    inside = Region(
        lambda x: (FailsBackward.apply(x.sin()) if ends == "in the region" else x.sin()) * 2
    )
    outside = inside(x if ends == "in the region" else FailsBackward.apply(x))
    with pytest.raises(KeyError, match="mine"):
        outside.sum().backward()
    del outside
    assert_charges(device)
    model = nn.Linear(N, N).to(device)
    Region(model)(x).sum().backward()  # a region begins as if nothing had been
    assert_charges(device)


def test_an_error_that_the_function_handles():
    (device,) = sim.configure(1)

    def careful(x):
        try:
            return x @ torch.ones(3, 3, device=x.device)
        except RuntimeError:
            return x + 1

    x = torch.ones(4, 4, device=device)
    assert Region(careful)(x).sum().item() == 32
    assert_charges(device)


def test_memory_that_runs_out_in_the_backward_pass():
    gpu = dataclasses.replace(PROMPT, memory=9 * SIZE)
    (device,) = sim.configure(1, gpu=gpu, numerics=False)
    weights = [torch.ones(N, N, device=device, requires_grad=True) for _ in range(4)]

    def model(*weights):
        x = weights[0]
        for weight in weights:
            x = x @ weight
        return x.sum()

    loss = Region(model)(*weights)
    with pytest.raises(torch.OutOfMemoryError):
        loss.backward()
    for weight in weights:
        weight.grad = None
    del loss
    assert sim.memory_allocated() == 4 * SIZE
    assert_charges(device)
