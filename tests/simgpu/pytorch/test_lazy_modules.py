"""Lazy modules on simulated GPUs: made there, moved there, and filled there."""

import copy
import pickle

import pytest
import torch
from torch import nn

import simgpu as sim

pytestmark = pytest.mark.filterwarnings("ignore:Lazy modules")
X = torch.linspace(-1, 1, 20).view(4, 5)


def network(device=None):
    return nn.Sequential(
        nn.LazyLinear(3, device=device), nn.LazyBatchNorm1d(device=device), nn.ReLU(),
        nn.LazyLinear(2, bias=False, device=device),
    )  # fmt: skip


def filled():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(5, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2, bias=False)
    )  # fmt: skip
    return net.state_dict()


ROUTES = {
    "moved": lambda: network().to("sim:1"),
    "made there": lambda: network("sim:1"),
    "moved around": lambda: network("sim:0").cpu().to("sim:0").half().float().to("sim:1"),
    "copied": lambda: copy.deepcopy(network("sim:1")),
}


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize("route", ROUTES)
def test_parameters_get_their_shapes_where_they_are(route, numerics):
    device = sim.configure(2, numerics=numerics)[1]
    net = ROUTES[route]()
    weight = net[0].weight
    assert nn.parameter.is_lazy(weight)
    assert nn.parameter.is_lazy(net[1].running_mean)
    assert isinstance(weight, nn.parameter.UninitializedParameter)
    assert {t.device for t in net.state_dict().values()} == {device}
    optimiser = torch.optim.SGD([weight], 0.1)
    y = net(X.to(device))
    y.sum().backward()
    optimiser.step()
    assert net[0].weight is weight
    assert type(weight) is sim.SimTensor
    assert isinstance(weight, nn.Parameter)
    assert (weight.shape, weight.grad.shape, y.shape) == ((3, 5), (3, 5), (4, 2))
    assert {t.device for t in net.state_dict().values()} == {device}
    assert [type(module) for module in net] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert net.cpu()[0].weight is weight
    assert weight.device.type == "cpu"


def test_values_are_those_of_the_host():
    (device,) = sim.configure(1)
    results = []
    for where in ("cpu", device):
        net = network().to(where)
        net.load_state_dict(filled())
        assert net[1].running_mean.device == torch.device(where)
        net(X.to(where)).square().sum().backward()
        results.append([*(p.grad.cpu() for p in net.parameters()), net[1].running_var.cpu()])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def test_they_cannot_be_used_before():
    (device,) = sim.configure(1)
    weight = network(device)[0].weight
    assert "tensor(" not in repr(weight) + str(weight)
    with pytest.raises(ValueError, match="uninitialized parameter"):
        weight + 1
    with pytest.raises(RuntimeError, match="uninitialized parameter"):
        _ = weight.shape


def test_pickles_forget_the_device_as_those_of_cuda_do():
    (device,) = sim.configure(1)
    net = pickle.loads(pickle.dumps(network(device)))
    assert type(net[0].weight) is nn.parameter.UninitializedParameter
    assert net.to(device)(X.to(device)).shape == (4, 2)


def test_lazy_modules_on_the_host_are_left_alone():
    (device,) = sim.configure(1)
    assert type(network().double()[0].weight) is nn.parameter.UninitializedParameter
    assert network().to("meta")[0].weight.device.type == "meta"
    assert network()(X).shape == (4, 2)
    with device:
        assert network()[0].weight.device == device
