"""``.to()`` of tensors and modules takes and returns what it does for real devices."""

import pytest
import torch
from torch import nn

from d2lmini import sim

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
