"""``.to()`` of tensors and modules takes and returns what it does for real devices."""

import pytest
import torch
from torch import nn

import simgpu as sim

IMAGES = torch.arange(120.0).view(2, 3, 4, 5)
LAST = torch.channels_last
HALF, DOUBLE = torch.float16, torch.float64


@pytest.fixture
def devices():
    return sim.configure(2)


CALLS = {
    "nothing": ((), {}),
    "None": ((None,), {}),
    "None, None": ((None, None), {}),
    "None, dtype": ((None, DOUBLE), {}),
    "None, dtype, flags": ((None, DOUBLE, True, True), {}),
    "device=None, dtype=": ((), {"device": None, "dtype": HALF}),
    "dtype=None": ((), {"dtype": None}),
    "dtype": ((DOUBLE,), {}),
    "its own dtype": ((torch.float32,), {}),
    "Python's type": ((float,), {}),
    "dtype=Python's type": ((), {"dtype": int}),
    "dtype, flags": ((DOUBLE, True, True), {}),
    "dtype, copy=": ((torch.float32,), {"copy": True}),
    "dtype, memory_format=": ((HALF, False), {"memory_format": LAST}),
    "dtype=, flags=": ((), {"dtype": DOUBLE, "non_blocking": True, "copy": True}),
    "memory_format=": ((), {"memory_format": LAST}),
    "what Module.to passes": ((None, None, False), {"memory_format": LAST}),
    "non_blocking=": ((), {"non_blocking": True}),
    "copy=": ((), {"copy": True}),
    "other": ((torch.ones(1, dtype=DOUBLE),), {}),
    "other, flags": ((IMAGES, False, True), {"memory_format": LAST}),
    "tensor=": ((), {"tensor": torch.ones(1, dtype=HALF), "copy": True}),
    "host": (("cpu", DOUBLE, False, True), {"memory_format": LAST}),
}


def facts(tensor):
    return tensor.dtype, tensor.stride(), tensor.tolist()


@pytest.mark.parametrize("form", CALLS)
def test_to_takes_every_form_that_it_takes_on_the_host(devices, form):
    args, kwargs = CALLS[form]
    expected, x = IMAGES.to(*args, **kwargs), IMAGES.to(devices[1])
    found = x.to(*args, **kwargs)
    assert facts(found) == facts(expected)
    leaves = any(isinstance(a, torch.Tensor | str) for a in (*args, kwargs.get("tensor")))
    assert found.device == (torch.device("cpu") if leaves else devices[1])
    if not leaves:
        assert (found is x) == (expected is IMAGES)


BY_KEYWORD = {name: kwargs for name, (args, kwargs) in CALLS.items() if not args}


@pytest.mark.parametrize("form", sorted(BY_KEYWORD.keys() - {"tensor=", "device=None, dtype="}))
def test_to_another_device_with_the_same_options(devices, form):
    found = IMAGES.to(devices[1]).to(device="sim:0", **BY_KEYWORD[form])
    assert found.device == devices[0]
    assert facts(found) == facts(IMAGES.to(device="cpu", **BY_KEYWORD[form]))


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((DOUBLE, DOUBLE), {}),
        ((DOUBLE,), {"dtype": DOUBLE}),
        ((DOUBLE,), {"device": "cpu"}),
        ((IMAGES, DOUBLE), {}),
        ((IMAGES,), {"dtype": DOUBLE}),
        (("cpu",), {"device": "cpu"}),
        (("cpu", "float64"), {}),
        (("cpu", None, None), {}),
        ((LAST,), {}),
        (([1],), {}),
        ((), {"tensor": None}),
        ((), {"non_blocking": 3}),
    ],
)
def test_to_refuses_what_it_refuses_on_the_host(devices, args, kwargs):
    for tensor in (IMAGES, IMAGES.to(devices[0])):
        with pytest.raises(TypeError):
            tensor.to(*args, **kwargs)


@pytest.mark.parametrize("numerics", [True, False])
def test_modules_change_their_type_and_format_in_place(numerics):
    (device,) = sim.configure(1, numerics=numerics)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to(device)
    weight = net[0].weight
    for arguments, dtype in (
        ({"memory_format": LAST}, torch.float32),
        ({"dtype": HALF}, HALF),
        ({"device": device, "dtype": DOUBLE}, DOUBLE),
    ):
        assert net.to(**arguments)[0].weight is weight
        assert {t.device for t in net.state_dict().values()} == {device}
        assert (weight.dtype, net[1].num_batches_tracked.dtype) == (dtype, torch.int64)
        assert weight.is_contiguous(memory_format=LAST)
    assert net.to(HALF)(IMAGES.to(device, HALF)).dtype == HALF


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


def one_step(net, optimiser, device):
    optimiser.zero_grad()
    net(torch.ones(2, 3, device=device)).pow(2).sum().backward()
    optimiser.step()


JOURNEY = ("sim:0", "cpu", "sim:1", "sim:0", "cpu")


def test_tied_weights_and_optimisers_survive_every_move(devices):
    torch.manual_seed(0)
    net, twin = Tied(), Tied()
    twin.load_state_dict(net.state_dict())
    weight = net.a.weight
    optimiser = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    reference = torch.optim.SGD(twin.parameters(), 0.01)
    for device in JOURNEY:
        net.to(device)
        assert weight.grad is None or weight.grad.device == torch.device(device)
        assert net.a.weight is net.b.weight is weight
        assert len(list(net.parameters())) == 3
        assert isinstance(weight, nn.Parameter)
        assert weight.device == torch.device(device)
        optimiser.state.clear()  # momentum stays behind, on CUDA as well
        one_step(net, optimiser, device)
        one_step(twin, reference, "cpu")
        assert weight.grad.device == weight.device
        torch.testing.assert_close(weight.detach().cpu(), twin.a.weight.detach())
    assert type(weight) is nn.Parameter


def test_attributes_of_parameters_survive_every_move(devices):
    net = nn.Linear(3, 2)
    net.weight.split_along, net.bias.decays = 0, False
    made_there = nn.Parameter(torch.ones(2, device=devices[1]))
    made_there.shared = "yes"
    net.register_parameter("scale", made_there)
    net.register_parameter("absent", None)
    for device in (*JOURNEY, torch.float16, "sim:0", torch.float32):
        net.to(device)
        assert (net.weight.split_along, net.bias.decays, net.scale.shared) == (0, False, "yes")
        assert not hasattr(net.weight, "decays")
        assert net.scale is made_there
    assert type(net.weight) is type(net.scale)


def test_modules_whose_forward_pass_is_still_alive_move_too(devices):
    for target in ("sim:1", "cpu"):
        net = Tied().to(devices[0])
        weight, before = net.a.weight, net.a.weight.tolist()
        out = net(torch.ones(2, 3, device=devices[0]))
        net.to(target)
        assert net.b.weight is weight
        assert (weight.tolist(), weight.device) == (before, torch.device(target))
        with pytest.raises(RuntimeError, match=r"backward\(\) before \.to\(\)"):
            out.sum().backward()
        net(torch.ones(2, 3, device=target)).sum().backward()
        assert weight.grad.device == torch.device(target)


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_the_old_weight_norm_moves(devices):
    net = nn.utils.weight_norm(nn.Linear(3, 2))
    expected = net(torch.ones(1, 3))
    for device in JOURNEY:
        assert torch.equal(net.to(device)(torch.ones(1, 3, device=device)).cpu(), expected)
        assert net.weight.device == net.weight_g.device == torch.device(device)


def test_recurrent_modules_move(devices):
    net = nn.LSTM(3, 4)
    expected = net(torch.ones(2, 1, 3))[0]
    for device in JOURNEY:
        found = net.to(device)(torch.ones(2, 1, 3, device=device))[0]
        torch.testing.assert_close(found.cpu(), expected)


def test_hooks_move_with_their_parameters(devices):
    net, seen = nn.Linear(3, 3), []
    first = net.weight.register_hook(lambda gradient: gradient * 0 + 7)
    second = net.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.device))
    for device in JOURNEY:
        net.to(device).zero_grad()
        net(torch.ones(1, 3, device=device)).sum().backward()
        assert net.weight.grad.cpu().eq(7).all()
    assert seen == [torch.device(device) for device in JOURNEY]
    first.remove()
    second.remove()
    net.to(devices[0]).zero_grad()
    net(torch.ones(1, 3, device=devices[0])).sum().backward()
    assert net.weight.grad.cpu().eq(1).all()
    assert len(seen) == len(JOURNEY)


def test_modules_on_the_host_are_moved_as_ever(devices):
    net = nn.Sequential(nn.Linear(3, 3), Tied().to(devices[0]))
    out = net[0](torch.ones(1, 3))
    net.cpu()
    out.sum().backward()  # nothing was swapped where nothing is simulated
    assert net[0].weight.grad.eq(1).all()
    assert torch.__future__.get_swap_module_params_on_conversion() is False
