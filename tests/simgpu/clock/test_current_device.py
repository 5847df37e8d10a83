"""Which GPU ``"sim"`` without a number means: the current one, as with ``"cuda"``."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

import simgpu as sim
from simgpu import naming


@pytest.fixture(autouse=True)
def three():
    if torch.accelerator.is_available() and not naming.is_accelerator():
        pytest.skip("needs a process without GPUs")
    sim.configure(3)


def by_default(make):
    with torch.device("sim"):
        return make()


WAYS = {
    "to": lambda: torch.ones(2).to("sim"),
    "to, by name": lambda: torch.ones(2).to(device="sim"),
    "to, a device": lambda: torch.ones(2).to(torch.device("sim")),
    "to, with a type": lambda: torch.ones(2).to("sim", torch.float64),
    "to, from a GPU": lambda: torch.ones(2, device="sim:2").to("sim"),
    "of a module": lambda: nn.Linear(2, 2).to("sim").weight,
    "made there": lambda: torch.ones(2, device="sim"),
    "from numbers": lambda: torch.tensor([1.0], device="sim"),
    "from a host tensor": lambda: torch.as_tensor(torch.ones(2), device="sim"),
    "from an array": lambda: torch.asarray(np.ones(2), device="sim"),
    "an array, moved": lambda: torch.from_numpy(np.ones(2)).to("sim"),
    "by default": lambda: by_default(lambda: torch.ones(2)),
    "from numbers, by default": lambda: by_default(lambda: torch.tensor([1.0])),
    "like another": lambda: torch.ones_like(torch.ones(2), device="sim"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_device_without_a_number_is_the_current_one(way):
    for index in (0, 1, 2, 1):
        sim.set_device(index)
        assert str(WAYS[way]().device) == f"sim:{index}"


@pytest.mark.filterwarnings("ignore:`torch.jit.script`")
def test_functions_that_find_the_number_are_still_pytorchs():
    @torch.jit.script
    def add(x):
        return x + torch.tensor([1.0]) + torch.as_tensor(2.0)

    sim.set_device(1)
    assert add(torch.ones(1)).tolist() == [4]
    assert pickle.loads(pickle.dumps(torch.tensor)) is torch.tensor
    with torch.device("meta"):
        assert torch.tensor([1.0]).device.type == "meta"
    assert str(torch.tensor([1.0], device="sim:2").device) == "sim:2"
    torch.set_default_device("sim")
    try:
        sim.set_device(2)  # the default device is the one that is current when it is needed
        assert str(torch.get_default_device()) == str(torch.tensor([1.0]).device) == "sim:2"
    finally:
        torch.set_default_device(None)
    assert torch.tensor([1.0]).device.type == "cpu"


def test_inside_a_block_for_a_device_or_a_stream():
    x = torch.ones(2)
    with torch.sim.device(2):
        assert str(x.to("sim").device) == "sim:2"
    with sim.Stream("sim:1"):
        assert str(x.to("sim").device) == "sim:1"
    assert str(x.to("sim").device) == "sim:0"


def test_what_is_there_already_is_not_copied():
    sim.set_device(1)
    x = torch.ones(2, device="sim:1")
    assert x.to("sim") is x
    other = torch.ones(2, device="sim:0")
    assert other.to("sim:0") is other
    assert str(other.to("sim").device) == "sim:1"


def test_other_arguments_are_left_alone():
    sim.set_device(1)
    x = torch.ones(2)
    assert x.to("sim:0").device.index == 0
    assert x.to("cpu") is x
    assert x.to(torch.float16).dtype == torch.float16
    assert str(x.to(torch.ones(2, device="sim:2")).device) == "sim:2"
    assert str(x.to(0).device) == "sim:0"
    moved = x.to("sim", dtype=torch.float64, non_blocking=True, copy=True)
    assert (str(moved.device), moved.dtype, moved.tolist()) == ("sim:1", torch.float64, [1, 1])


def test_gradients_flow_back():
    sim.set_device(2)
    x = torch.ones(3, requires_grad=True)
    (x.to("sim") * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_streams_and_events_of_torch_belong_to_it():
    sim.set_device(1)
    assert str(torch.Stream().device) == "sim:1"
    assert str(torch.Stream("sim").device) == "sim:1"
    assert str(torch.Stream("sim:2").device) == "sim:2"
    event = torch.Event()
    assert event.device is None
    event.record()
    assert str(event.device) == "sim:1"
    with pytest.raises(ValueError, match="no sim:3"):
        torch.Event("sim:3")


def test_tables_of_methods_still_have_it():
    called = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            called.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    sim.set_device(1)
    x = torch.ones(2).as_subclass(Watched)
    x.to(torch.float64)
    assert called == [torch._C.TensorBase.to]
    layer = nn.LazyLinear(2).to("cpu")
    assert layer(torch.ones(1, 3)).shape == (1, 2)


def test_a_default_device_that_ranks_name_first_is_one_afterwards():
    from torch.utils import _device

    def program(rank):
        with torch.device("sim", rank):
            return [str(x.device) for x in (torch.ones(1), torch.tensor([1]))]

    sim.close()
    _device._device_constructors.cache_clear()
    assert sim.spawn(program, nprocs=2) == [["sim:0"] * 2, ["sim:1"] * 2]
    sim.configure(3)
    with torch.device("sim:2"):
        assert str(torch.tensor([1]).device) == "sim:2"
