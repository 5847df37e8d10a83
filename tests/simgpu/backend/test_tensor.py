"""Simulated tensors behave like CUDA tensors: devices, moves, indices, saving, printing."""

import copy
import io
import itertools
import pickle
import re

import numpy as np
import pytest
import torch
from torch import nn

import simgpu as sim


@pytest.fixture
def devices():
    return sim.configure(3)


FACTORIES = {
    "ones": lambda d: torch.ones(2, 3, device=d),
    "zeros": lambda d: torch.zeros(2, device=d),
    "full": lambda d: torch.full((2,), 7, device=d),
    "empty": lambda d: torch.empty(2, device=d).fill_(1),
    "arange": lambda d: torch.arange(5, device=d),
    "arange_step": lambda d: torch.arange(1, 5, 0.5, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 4, device=d),
    "eye": lambda d: torch.eye(3, device=d),
    "tensor": lambda d: torch.tensor([[1.5, 2], [3, 4]], device=d),
    "tensor_number": lambda d: torch.tensor(3, device=d),
    "tensor_numpy": lambda d: torch.tensor(np.arange(3), device=d),
    "as_tensor": lambda d: torch.as_tensor([1, 2], device=d),
    "from_numpy": lambda d: torch.from_numpy(np.ones(3)).to(d),
    "kaiser_window": lambda d: torch.kaiser_window(5, device=d),
    "kaiser_window_beta": lambda d: torch.kaiser_window(4, False, beta=3.0, device=d),
    "hann_window": lambda d: torch.hann_window(5, device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "ones_like": lambda d: torch.ones_like(torch.zeros(2), device=d),
    "zeros_like": lambda d: torch.zeros_like(torch.ones(2, device=d)),
    "full_like": lambda d: torch.full_like(torch.ones(2, device=d), 3),
    "new_zeros": lambda d: torch.ones(1, device=d).new_zeros(2),
    "new_tensor": lambda d: torch.ones(1, device=d).new_tensor([1, 2.5]),
    "new_full": lambda d: torch.ones(1).new_full((2,), 3, device=d),
    "complex": lambda d: torch.ones(2, dtype=torch.complex64, device=d),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(devices, name):
    expected, found = FACTORIES[name]("cpu"), FACTORIES[name](devices[1])
    assert found.device == devices[1]
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("name", ["rand", "randn"])
def test_random_factories_draw_what_the_host_would(devices, name):
    torch.manual_seed(4)
    expected = getattr(torch, name)(5)
    torch.manual_seed(4)
    assert torch.equal(getattr(torch, name)(5, device=devices[2]).cpu(), expected)


def test_random_integers_and_permutations(devices):
    assert torch.randint(5, (20,), device=devices[0]).max().item() < 5
    assert torch.randperm(9, device=devices[0]).sort().values.tolist() == list(range(9))
    assert torch.normal(0.0, 1.0, (2,), device=devices[1]).device == devices[1]


def test_default_devices(devices):
    with torch.device("sim:2"):
        assert torch.ones(1).device == devices[2]
        assert nn.Linear(2, 2).weight.device == devices[2]
        assert torch.tensor([1]).device == devices[2]
    assert torch.ones(1).device.type == "cpu"
    assert torch.ones(1, device="sim").device == devices[0]
    sim.set_device(devices[1])
    assert torch.ones(1, device="sim").device == devices[1]


def test_what_a_tensor_says_about_itself(devices):
    x = torch.ones(2, 3, device=devices[1])
    assert (x.device, x.get_device(), x.type()) == (devices[1], 1, "torch.sim.FloatTensor")
    assert (x.is_sim, x.is_cuda, x.is_cpu, x.is_meta, x.is_pinned()) == (
        True, False, False, False, False,
    )  # fmt: skip
    assert (x.dtype, tuple(x.shape), x.stride(), len(x)) == (torch.float32, (2, 3), (3, 1), 2)
    assert isinstance(x, torch.Tensor)
    assert isinstance(nn.Parameter(x), nn.Parameter)
    assert x.is_leaf
    assert not x.requires_grad


TO = {
    "device": lambda x, d: x.to(d[1]),
    "name": lambda x, d: x.to("sim:1"),
    "keyword": lambda x, d: x.to(device=d[1]),
    "number": lambda x, d: x.to(1),
    "device_dtype": lambda x, d: x.to(d[1], torch.float64),
    "keywords": lambda x, d: x.to(device=d[1], dtype=torch.float64, non_blocking=True),
    "copy": lambda x, d: x.to(d[1], copy=True),
    "other": lambda x, d: x.to(torch.ones(1, dtype=torch.int32, device=d[1])),
    "other_keyword": lambda x, d: x.to(tensor=torch.ones(1, device=d[1])),
    "type_as": lambda x, d: x.type_as(torch.ones(1, dtype=torch.float16, device=d[1])),
}


@pytest.mark.parametrize(
    ("form", "start"),
    # A bare number means the default accelerator to a CPU tensor.
    sorted({*itertools.product(TO, ["cpu", "sim:0", "sim:1"])} - {("number", "cpu")}),
)
def test_every_form_of_to(devices, form, start):
    x = torch.arange(6.0).view(2, 3).to(start)
    y = TO[form](x, devices)
    assert y.device == devices[1]
    assert torch.equal(y.cpu().float(), x.cpu())
    expected = {"device_dtype": torch.float64, "keywords": torch.float64, "other": torch.int32}
    assert y.dtype == expected.get(form, torch.float16 if form == "type_as" else torch.float32)


def test_to_the_same_device_is_the_same_tensor(devices):
    x = torch.ones(2, device=devices[1])
    assert x.to(devices[1]) is x
    assert x.to("sim:1", torch.float32) is x
    assert x.to(x) is x
    assert x.float() is x
    assert x.to(devices[1], copy=True).data_ptr() != x.data_ptr()
    assert x.to(devices[1], torch.float16).device == devices[1]


def test_to_host_and_to_meta(devices):
    x = torch.arange(4.0, device=devices[0]).view(2, 2)
    for y in (x.cpu(), x.to("cpu"), x.to(torch.ones(1)), x.t().cpu().t()):
        assert type(y) is torch.Tensor
        assert torch.equal(y, torch.arange(4.0).view(2, 2))
    assert x.to("meta").device.type == "meta"
    assert x.to("cpu", torch.int64).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("start", ["cpu", "sim:0"])
@pytest.mark.parametrize("end", ["cpu", "sim:0", "sim:1"])
def test_copies_of_strided_and_of_empty_tensors(devices, start, end):
    x = torch.arange(24.0).view(2, 3, 4)
    for view in (
        x,
        x.transpose(0, 2),
        x[:, ::2],
        x[:, :, 1],
        x[:0],
        x[0, 0, 0],
        x.expand(2, 2, 3, 4),
    ):
        moved = view.to(start).to(end)
        assert moved.shape == view.shape
        assert torch.equal(moved.cpu(), view)
        target = torch.zeros(view.shape, device=end)
        target.copy_(view.to(start))
        assert torch.equal(target.cpu(), view)
        wide = torch.zeros(*view.shape, 2, device=end)
        wide[..., 1] = view.to(start)
        assert torch.equal(wide.cpu()[..., 1], view)


def test_zero_elements_take_no_time_to_copy(devices):
    x = torch.empty(0, 3, device=devices[0])
    sim.reset()
    assert x.cpu().shape == x.to(devices[1]).shape == (0, 3)
    assert sim.trace() == []


def test_views_alias_and_in_place_operations_show_through(devices):
    x = torch.zeros(3, 4, device=devices[0])
    column, flat, transposed = x[:, 1], x.view(-1), x.t()
    column += 1
    flat[0] = 5
    transposed[3].mul_(2).sub_(1)
    x[2] = torch.tensor([7.0, 8, 9, 10])  # from the host, as CUDA allows
    x[0, 2:].copy_(torch.tensor([3.0, 4], device=devices[1]))
    assert x.tolist() == [[5, 1, 3, 4], [0, 1, 0, -1], [7, 8, 9, 10]]
    assert flat.tolist() == x.flatten().tolist()
    assert x[1:]._base is x


def test_in_place_changes_of_shape(devices):
    x = torch.arange(6.0, device=devices[0]).view(2, 3)
    assert x.t_().shape == (3, 2)
    assert x.unsqueeze_(0).squeeze_().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert torch.empty(0, device=devices[0]).set_(x).shape == (3, 2)
    out = torch.empty(0, device=devices[0])
    assert torch.add(x, x, out=out) is out
    assert out.tolist() == [[0, 6], [2, 8], [4, 10]]


def test_indices_from_either_side(devices):
    x = torch.arange(12.0).view(4, 3)
    y = x.to(devices[0])
    i, mask = torch.tensor([3, 0]), torch.tensor([True, False, True, False])
    for index in (i, i.to(devices[0]), [3, 0], np.array([3, 0])):
        assert torch.equal(y[index].cpu(), x[i])
        assert torch.equal(y[index, 1:].cpu(), x[i, 1:])
        assert torch.equal(y[:, 1][index].cpu(), x[:, 1][i])
    for index in (mask, mask.to(devices[0]), y[:, 0] % 2 == 0):
        assert torch.equal(y[index].cpu(), x[mask])
    assert y[i.to(devices[0])[1]].tolist() == x[0].tolist()
    for index in (i, i.to(devices[0]), [3, 0]):
        y[index] = -1.0
        y[index, 0] = torch.tensor([5.0, 6.0], device=devices[0])
    assert y[3].tolist() == [5, -1, -1]


def test_mixed_devices_raise_pytorchs_own_words(devices):
    x, y, z = torch.ones(2, device=devices[0]), torch.ones(2, device=devices[1]), torch.ones(2)
    text = "Expected all tensors to be on the same device, but found at least two devices, {}!"
    for run, names in (
        (lambda: x + y, "sim:0 and sim:1"),
        (lambda: y * x, "sim:1 and sim:0"),
        (lambda: x + z, "sim:0 and cpu"),
        (lambda: z + x, "sim:0 and cpu"),
        (lambda: torch.cat([x, y]), "sim:0 and sim:1"),
        (lambda: x.add_(y), "sim:0 and sim:1"),
        (lambda: torch.where(x > 0, x, y), "sim:0 and sim:1"),
        (lambda: nn.Linear(2, 2)(x), "sim:0 and cpu"),
        (lambda: nn.functional.mse_loss(x, y), "sim:0 and sim:1"),
        (lambda: x[torch.tensor([0], device=devices[1])], "sim:0 and sim:1"),
        (lambda: z[torch.tensor([0], device=devices[1])], "sim:1 and cpu"),
        (lambda: z * torch.tensor(2.0, device=devices[1]), "sim:1 and cpu"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(text.format(names))):
            run()


def test_numbers_and_host_scalars_mix(devices):
    x = torch.ones(2, device=devices[0])
    assert (x * torch.tensor(3.0) + 1).tolist() == [4, 4]
    assert (torch.tensor(3.0) - x).device == devices[0]
    x[0] = torch.tensor(9.0)
    x *= np.float32(2)
    assert x.tolist() == [18, 2]


def test_values_leave_only_through_the_host(devices):
    x = torch.tensor([1.5, -2], device=devices[0])
    assert (x[0].item(), float(x[1]), bool(x[0] > 0), x.tolist()) == (1.5, -2.0, True, [1.5, -2])
    assert int(torch.tensor(3, device=devices[0])) == 3
    assert [10, 20, 30][torch.tensor(1, device=devices[0])] == 20
    assert f"{x[0]:.2f}" == "1.50"
    assert x.cpu().numpy().tolist() == [1.5, -2]
    assert torch.allclose(x.cpu(), torch.tensor([1.5, -2]))
    assert 1.5 in x
    assert [v.item() for v in x] == [1.5, -2]
    for convert in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="can't convert sim:0 device type tensor to numpy"):
            convert()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.tensor([1.0, 2]), "tensor([1., 2.], device='sim:1')"),
        (torch.tensor(3), "tensor(3, device='sim:1')"),
        (torch.tensor([1], dtype=torch.int32), "tensor([1], device='sim:1', dtype=torch.int32)"),
        (torch.ones(1).half(), "tensor([1.], device='sim:1', dtype=torch.float16)"),
        (torch.empty(0, 3), "tensor([], device='sim:1', size=(0, 3))"),
        (torch.tensor(True), "tensor(True, device='sim:1')"),
    ],
)
def test_printing(devices, value, text):
    x = value.to(devices[1])
    assert repr(x) == str(x) == text


def test_printing_of_parameters_and_results(devices):
    p = nn.Parameter(torch.ones(2, device=devices[0]))
    assert repr(p) == (
        "Parameter containing:\ntensor([1., 1.], device='sim:0', requires_grad=True)"
    )
    assert repr(p * 2) == "tensor([2., 2.], device='sim:0', grad_fn=<MulBackward0>)"
    assert "ToCopyBackward0" in repr(p.to(devices[1]))
    assert "Linear(in_features=2" in repr(nn.Linear(2, 2).to(devices[0]))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.b.weight = self.a.weight
        self.register_buffer("steps", torch.zeros(1))


def test_data_can_be_replaced_on_any_device_and_grad_on_the_same_one(devices):
    p = nn.Parameter(torch.ones(2, device=devices[0]))
    p.data = torch.zeros(3, device=devices[0])
    assert p.tolist() == [0, 0, 0]
    p.data = p.data.to(devices[1])
    assert p.device == devices[1]
    p.grad = torch.ones(3, device=devices[1])
    with pytest.raises(RuntimeError, match=r"gradient on sim:0 to a tensor on sim:1"):
        p.grad = torch.ones(3, device=devices[0])
    with pytest.raises(RuntimeError, match=r"gradient on cpu to a tensor on sim:1"):
        p.grad = torch.ones(3)
    p.data = torch.zeros(3)
    assert p.device == p.grad.device == torch.device("cpu")
    assert isinstance(p, nn.Parameter)
    assert p.grad.tolist() == [1, 1, 1]


def test_parameters_that_get_their_data_from_a_device_stay_those_of_the_optimiser(devices):
    net, twin = nn.Linear(3, 3), nn.Linear(3, 3)
    twin.load_state_dict(net.state_dict())
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    own = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9)
    for model in (net, twin):
        model(torch.ones(2, 3)).sum().backward()
    net.weight.is_shared_by = "all"
    before = [id(p) for p in net.parameters()]
    for p in net.parameters():
        p.data = p.data.to(devices[0])
        p.grad.data = p.grad.data.to(devices[0])
        assert isinstance(p, nn.Parameter)
        assert p.requires_grad
        assert p.is_leaf
    assert [id(p) for p in net.parameters()] == before
    assert net.weight.is_shared_by == "all"
    for model, optimizer in ((net, sgd), (twin, own)):
        optimizer.step()
        model(torch.ones(2, 3, device=next(model.parameters()).device)).sum().backward()
        optimizer.step()
    for p, q in zip(net.parameters(), twin.parameters(), strict=True):
        assert p.device == devices[0]
        assert torch.allclose(p.cpu(), q)


def test_data_of_what_autograd_has_computed_stays_on_its_device(devices):
    y = nn.Linear(2, 2)(torch.ones(2))
    with pytest.raises(RuntimeError, match=r"sim:0 to the data of one on cpu that autograd has"):
        y.data = torch.ones(2, device=devices[0])


def test_deepcopy_is_a_real_copy(devices):
    net = nn.Linear(2, 2).to(devices[0])
    net(torch.ones(1, 2, device=devices[0])).sum().backward()
    twin = copy.deepcopy(net)
    assert twin.weight.device == devices[0]
    assert isinstance(twin.weight, nn.Parameter)
    assert twin.weight.requires_grad
    assert torch.equal(twin.weight.grad.cpu(), net.weight.grad.cpu())
    with torch.no_grad():
        twin.weight.zero_()
    assert net.weight.abs().sum() > 0
    tied = copy.deepcopy(Tied().to(devices[1]))
    assert tied.a.weight is tied.b.weight
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(net.weight * 2)


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return lambda **kwargs: torch.load(io.BytesIO(buffer.getvalue()), **kwargs)


def test_saving_remembers_the_device_and_loading_may_change_it(devices):
    x = torch.arange(6.0, device=devices[1]).view(2, 3)
    load = saved({"x": x, "row": x[1], "weight": nn.Parameter(x.t()), "n": 3})
    for kwargs, device in (
        ({}, devices[1]),
        ({"map_location": "sim:2"}, devices[2]),
        ({"map_location": devices[0]}, devices[0]),
        ({"map_location": {"sim:1": "sim:0"}}, devices[0]),
        ({"map_location": "cpu"}, torch.device("cpu")),
        ({"weights_only": False}, devices[1]),
    ):
        loaded = load(**kwargs)
        assert {t.device for t in loaded.values() if isinstance(t, torch.Tensor)} == {device}
        assert torch.equal(loaded["x"].cpu(), x.cpu())
        assert loaded["weight"].t().tolist() == x.tolist()
        assert isinstance(loaded["weight"], nn.Parameter)
        loaded["row"].zero_()  # still a view
        assert loaded["x"].tolist() == [[0, 1, 2], [0, 0, 0]]
    assert x[1].tolist() == [3, 4, 5]


def test_state_dicts(devices):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to(devices[0])
    optimiser = torch.optim.Adam(net.parameters())
    net(torch.rand(4, 2, device=devices[0])).sum().backward()
    optimiser.step()
    load, load_optimiser = saved(net.state_dict()), saved(optimiser.state_dict())
    for target in ("cpu", "sim:0", "sim:1"):
        other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to(target)
        other.load_state_dict(load(map_location="cpu"))
        other.load_state_dict(load())
        for p, q in zip(net.state_dict().values(), other.state_dict().values(), strict=True):
            assert q.device == torch.device(target)
            assert torch.equal(p.cpu(), q.cpu())
        twin = torch.optim.Adam(other.parameters())
        twin.load_state_dict(load_optimiser())
        assert twin.state[other[0].weight]["exp_avg"].device == torch.device(target)


def test_loading_where_fewer_devices_exist(devices):
    load = saved(torch.ones(2, device=devices[2]))
    sim.configure(2)
    with pytest.raises(RuntimeError, match=r"sim:2 .* 2 simulated GPUs.*map_location"):
        load()
    assert load(map_location="sim:1").tolist() == [1, 1]


def test_pickle(devices):
    x = torch.ones(2, device=devices[1], requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert (y.device, y.requires_grad, y.tolist()) == (devices[1], True, [1, 1])


def test_pinned_memory(devices):
    assert sim.empty_pinned(2, 3, dtype=torch.int64).dtype == torch.int64
    assert sim.empty_pinned((2, 3)).shape == (2, 3)
    buffer = sim.empty_pinned(4)
    assert sim.is_pinned(buffer)
    assert sim.is_pinned(buffer[1:])
    assert not sim.is_pinned(torch.ones(4))
    assert not sim.is_pinned(torch.ones(4, device=devices[0]))
    assert sim.pin_memory(buffer) is buffer
    pinned = sim.pin_memory(torch.arange(3.0))
    assert sim.is_pinned(pinned)
    assert pinned.tolist() == [0, 1, 2]
    assert sim.is_pinned(torch.ones(2, device=devices[0]).to("cpu", non_blocking=True))
    with pytest.raises(ValueError, match="sim:0"):
        sim.pin_memory(torch.ones(4, device=devices[0]))


def test_data_loaders_and_functional_transforms(devices):
    data = torch.utils.data.TensorDataset(torch.arange(6.0, device=devices[0]))
    (batch,) = next(iter(torch.utils.data.DataLoader(data, batch_size=4)))
    assert (batch.device, batch.tolist()) == (devices[0], [0, 1, 2, 3])
    x = torch.arange(3.0, device=devices[1])
    gradient = torch.func.grad(lambda v: (v**2).sum())(x)
    assert (gradient.device, gradient.tolist()) == (devices[1], [0, 2, 4])
    rows = torch.vmap(lambda v: v * 2)(x)
    assert (rows.device, rows.tolist()) == (devices[1], [0, 2, 4])


def test_plain_meta_tensors_stay_what_they_are(devices):
    x = torch.ones(2, 3, device="meta")
    assert type(x + 1) is torch.Tensor
    assert type(torch.empty(2, device="meta")) is torch.Tensor
    assert torch.empty(1, 2, 3, 4, device="meta", memory_format=torch.channels_last).stride() == (
        24, 1, 8, 2,
    )  # fmt: skip
    with torch.device("meta"):
        assert nn.Linear(2, 2).weight.is_meta
    net = nn.Linear(2, 2, device="meta").to_empty(device=devices[0])
    assert net.weight.device == devices[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x, lambda x: x[0], lambda x: x[1:], lambda x: x.t(), lambda x: x[:, ::2],
        lambda x: x[:1].t(), lambda x: x[:, :1], lambda x: x[:0], lambda x: x[0, 0],
        lambda x: x[:1].expand(3, 4), lambda x: x.as_strided((1, 4), (99, 1)),
        lambda x: x.as_strided((4, 1), (1, 99)), lambda x: x.as_strided((0, 4), (7, 3)),
        lambda x: x.view(1, 2, 2, 4).contiguous(memory_format=torch.channels_last),
    ],
)  # fmt: skip
def test_wrappers_have_the_strides_of_what_they_wrap(make, devices):
    host = torch.arange(16.0).view(4, 4)
    wanted, found = make(host), make(host.to(devices[1]))
    for tensor in (found, found._data):
        assert tensor.shape == wanted.shape
        assert tensor.stride() == wanted.stride()
        assert tensor.storage_offset() == wanted.storage_offset()
        assert tensor.is_contiguous() == wanted.is_contiguous()
    assert found.untyped_storage().nbytes() == wanted.untyped_storage().nbytes()


@pytest.mark.parametrize("kwargs", [{}, {"device": "sim:1"}, {"dtype": torch.float64}], ids=str)
def test_lists_of_numbers_on_gpus_become_tensors(devices, kwargs):
    host = [torch.tensor(2.0), torch.tensor(3.5)], [torch.tensor(1.0), 4.0]
    there = [host[0][0].to(devices[0]), host[0][1].to(devices[1])], [host[1][0].to(devices[1]), 4.0]
    for make in (torch.tensor, torch.as_tensor):
        expected, found = make(host, **kwargs | {"device": "cpu"}), make(there, **kwargs)
        assert found.dtype is expected.dtype
        assert str(found.device) == kwargs.get("device", "cpu")
        assert torch.equal(found.cpu(), expected)
    with pytest.raises(RuntimeError, match="Could not infer dtype of object"):
        torch.tensor([there[0][0], object()])
