"""Saving and loading on machines that keep shapes only."""

import io

import pytest
import torch
from torch import nn

import simgpu as sim


@pytest.fixture
def shapes_only():
    sim.configure(2, "a100", numerics=False)
    yield
    sim.reset()


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer


def test_a_large_model_is_a_small_file(shapes_only):
    net = nn.Linear(1000, 3000).to("sim:0")
    optimiser = torch.optim.AdamW(net.parameters())
    net(torch.ones(4, 1000, device="sim:0")).sum().backward()
    optimiser.step()
    file = saved({"net": net.state_dict(), "optimiser": optimiser.state_dict(), "whole": net})
    assert len(file.getvalue()) < 20_000
    for where, device in ((None, "sim:0"), ("sim:1", "sim:1"), ("cpu", "cpu")):
        file.seek(0)
        loaded = torch.load(file, map_location=where, weights_only=False)
        weight = loaded["net"]["weight"]
        assert (str(weight.device), weight.shape, weight.stride()) == (
            device,
            (3000, 1000),
            (1000, 1),
        )
        assert isinstance(loaded["whole"].weight, nn.Parameter)
        net.load_state_dict(loaded["net"])
        optimiser.load_state_dict(loaded["optimiser"])


def test_a_loaded_tensor_takes_the_memory_of_its_shape(shapes_only):
    file = saved(torch.empty(2**20, device="sim:0"))
    file.seek(0)
    before = torch.sim.memory_allocated("sim:1")
    loaded = torch.load(file, map_location="sim:1")
    assert torch.sim.memory_allocated("sim:1") == before + 2**22
    assert loaded.shape == (2**20,)


def test_missing_values_are_never_numbers_that_could_be_right(shapes_only):
    file = saved([torch.ones(3, device="sim:0"), torch.ones(3, dtype=torch.long, device="sim:0")])
    file.seek(0)
    floats, integers = torch.load(file, map_location="cpu")
    assert floats.isnan().all()
    assert integers.tolist() == [0, 0, 0]
    sim.configure(1, "a100")
    file.seek(0)
    with pytest.raises(RuntimeError, match=r"has no values: .* sim:0 keeps values; load it where"):
        torch.load(file)
