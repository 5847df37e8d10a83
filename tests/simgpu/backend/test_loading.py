"""``torch.load`` puts what was saved on the host onto simulated GPUs."""

import io

import pytest
import torch
from torch import nn

import simgpu as sim


@pytest.fixture
def devices():
    return sim.configure(2)


def saved(value, **kwargs):
    buffer = io.BytesIO()
    torch.save(value, buffer, **kwargs)
    buffer.seek(0)
    return buffer


def tensors():
    x = torch.arange(6.0).view(2, 3)
    return {
        "x": x, "row": x[1], "transposed": x.t(), "weight": nn.Parameter(x * 2),
        "leaf": torch.ones(2, requires_grad=True), "half": torch.ones(2, dtype=torch.bfloat16),
        "number": torch.tensor(3), "nothing": torch.empty(0, 3), "flags": torch.tensor([True]),
    }  # fmt: skip


LOCATIONS = {
    "name": lambda devices: "sim:1",
    "device": lambda devices: devices[1],
    "table": lambda devices: {"cpu": "sim:1"},
    "function": lambda devices: (
        lambda storage, _: torch.serialization.default_restore_location(storage, "sim:1")
    ),
}


@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
def test_files_saved_on_the_host(devices, location, weights_only, zipped):
    expected = tensors()
    buffer = saved(expected, _use_new_zipfile_serialization=zipped)
    loaded = torch.load(
        buffer, map_location=LOCATIONS[location](devices), weights_only=weights_only
    )
    for name, tensor in loaded.items():
        assert tensor.device == devices[1], name
        assert torch.equal(tensor.cpu(), expected[name].detach()), name
        assert tensor.stride() == expected[name].stride(), name
        assert tensor.requires_grad == expected[name].requires_grad, name
    assert isinstance(loaded["weight"], nn.Parameter)
    loaded["row"].zero_()  # what shared memory shares it again
    assert loaded["x"].tolist() == loaded["transposed"].t().tolist() == [[0, 1, 2], [0, 0, 0]]


def test_unusual_types(devices):
    x = torch.arange(3).to(torch.uint16)
    assert torch.load(saved(x), map_location="sim:1").tolist() == [0, 1, 2]


def test_memory_and_time_are_those_of_the_copies(devices):
    x = torch.ones(1000)
    buffer = saved({"x": x, "half": x[:500], "y": torch.ones(200)})
    sim.reset()
    before = sim.memory_allocated(1)
    loaded = torch.load(buffer, map_location="sim:1")
    copies = [s.bytes for s in sim.trace() if s.bytes]
    assert sorted(copies) == [800, 4000]
    assert sim.memory_allocated(1) - before == 4096 + 1024
    del loaded
    assert sim.memory_allocated(1) == before


def test_weights_are_assigned(devices):
    net = nn.Linear(2, 2)
    buffer = saved(net.state_dict())
    twin = nn.Linear(2, 2).to(devices[0])
    twin.load_state_dict(torch.load(buffer, map_location=devices[1]), assign=True)
    assert twin.weight.device == devices[1]
    assert torch.equal(twin.weight.cpu(), net.weight)


def test_shapes_only():
    (device,) = sim.configure(1, numerics=False)
    loaded = torch.load(saved(torch.ones(3)), map_location=device)
    assert loaded.device == device
    assert loaded.cpu().isnan().all()


def test_the_host_stays_the_host(devices):
    for kwargs in ({}, {"map_location": "cpu"}, {"map_location": {"sim:0": "sim:1"}}):
        loaded = torch.load(saved(torch.ones(2)), **kwargs)
        assert type(loaded) is torch.Tensor
        assert loaded.device.type == "cpu"


@pytest.mark.parametrize("zipped", [True, False])
def test_conjugate_views_are_refused_rather_than_read_too_early(devices, zipped):
    x = torch.tensor([1 + 2j]).conj()
    buffer = saved(x, _use_new_zipfile_serialization=zipped)
    with pytest.raises(NotImplementedError, match=r"map_location='cpu'.*\.to\('sim:1'\)"):
        torch.load(buffer, map_location="sim:1")
    buffer.seek(0)
    assert torch.load(buffer, map_location="cpu").to("sim:1").tolist() == [1 - 2j]


def test_devices_that_do_not_exist(devices):
    with pytest.raises(RuntimeError, match=r"sim:7 .* 2 simulated GPUs"):
        torch.load(saved(torch.ones(2)), map_location="sim:7")
