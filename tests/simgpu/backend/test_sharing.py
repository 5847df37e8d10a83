"""Who shares memory with whom: copies, addresses, tensors that are set or grow, repetitions."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch import nn

import simgpu as sim

OVERLAP = "more than one element of the written-to tensor refers to a single memory location"


@pytest.fixture(params=[True, False], ids=["values", "shapes"])
def machine(request):
    return sim.configure(2, numerics=request.param)


def test_deep_copies_share_memory_where_the_originals_do():
    (device,) = sim.configure(1)
    for where in ("cpu", device):
        x = torch.arange(12.0, device=where).view(3, 4)
        originals = x, x[1], x.t(), x[1:, ::2], x[2].view(torch.int32), nn.Parameter(x)
        copies = copy.deepcopy(originals)
        for old, new in zip(originals, copies, strict=True):
            assert torch.equal(new.detach().cpu(), old.detach().cpu())
            assert (new.stride(), new.storage_offset()) == (old.stride(), old.storage_offset())
            assert (new.is_leaf, new._base) == (True, None)
        copies[1].zero_()
        assert copies[0].tolist() == [[0, 1, 2, 3], [0, 0, 0, 0], [8, 9, 10, 11]]
        assert copies[2].t().tolist() == copies[0].tolist()
        assert copies[5].tolist() == x.tolist()  # PyTorch copies a parameter by itself
        assert copies[3].tolist() == [[0, 0], [8, 10]]
        assert x[1].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("where", ["cpu", "device"])
def test_shallow_copies_share_memory(where):
    devices = sim.configure(1)
    x = torch.arange(6.0, device=devices[0] if where == "device" else "cpu")
    frozen = nn.Parameter(x, requires_grad=False)
    weight = nn.Parameter(x[1:4])
    weight.tag = "weight"
    for old in (x, x[2:], x.view(2, 3).t(), frozen, weight, weight * 2):
        new = copy.copy(old)
        assert new is not old
        assert (new.data_ptr(), new.stride()) == (old.data_ptr(), old.stride())
        assert (new.is_leaf, new.requires_grad) == (True, old.requires_grad)
        assert isinstance(new, nn.Parameter) == isinstance(old, nn.Parameter)
    assert copy.copy(weight).tag == "weight"
    copy.copy(x).zero_()
    assert x.tolist() == [0] * 6


def test_a_deep_copy_takes_the_memory_once(machine):
    x = torch.ones(1000, 2, device=machine[0])
    before = sim.memory_allocated(0)
    sim.reset()
    copies = copy.deepcopy([x[5:], x, x.t()])
    assert sim.memory_allocated(0) - before == 8192
    assert [span.bytes for span in sim.trace() if span.bytes] == [16000]
    assert copies[0].data_ptr() - copies[1].data_ptr() == 5 * 2 * 4
    del copies
    assert sim.memory_allocated(0) == before


def test_addresses_of_empty_tensors_are_those_of_cuda(machine):
    empty, x = torch.empty(0, 3, device=machine[0]), torch.empty(3, device=machine[0])
    assert empty.data_ptr() == x[:0].data_ptr() == 0
    assert empty.untyped_storage().data_ptr() == 0
    assert x[:0].untyped_storage().data_ptr() == x.data_ptr() != 0


def test_a_tensor_that_grows_moves(machine):
    empty, x = torch.empty(0, device=machine[0]), torch.empty(3, device=machine[0])
    empty.resize_(4)
    small = torch.empty(3, device=machine[0])
    small.resize_(2000)
    last = torch.empty(3, device=machine[0])
    ranges = sorted((t.data_ptr(), t.data_ptr() + t.nbytes) for t in (empty, x, small, last))
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))


def test_a_tensor_that_is_set_takes_part_in_the_others_memory(machine):
    x, y = torch.ones(4, device=machine[0]), torch.ones(2, device=machine[0])
    before = sim.memory_allocated(0)
    y.set_(x[2:])
    assert y.data_ptr() == x.data_ptr() + 8
    assert (y.storage_offset(), y.untyped_storage().data_ptr()) == (2, x.data_ptr())
    assert sim.memory_allocated(0) == before - 512
    address = y.data_ptr()
    with pytest.raises(RuntimeError, match="same device"):
        y.set_(torch.ones(2, device=machine[1]))
    assert y.data_ptr() == address
    if sim.is_numeric():
        y.fill_(5)
        assert x.tolist() == [1, 1, 5, 5]


WRITES = {
    "add_": lambda x, y: x.add_(1),
    "mul_": lambda x, y: x.mul_(y),
    "exp_": lambda x, y: x.exp_(),
    "normal_": lambda x, y: x.normal_(),
    "copy_": lambda x, y: x.copy_(y),
    "copy_ from the host": lambda x, y: x.copy_(torch.ones(3)),
    "copy_ from a peer": lambda x, y: x.copy_(y.to("sim:1") if x.get_device() >= 0 else y),
    "assignment": lambda x, y: x.__setitem__(slice(None), y),
    "scatter_": lambda x, y: x.scatter_(0, y.long(), y),
    "foreach": lambda x, y: torch._foreach_add_([y, x], 1),
    "out": lambda x, y: torch.add(y, y, out=x),
    "mm out": lambda x, y: torch.mm(y.expand(3, 3), y.expand(3, 3), out=x.expand(3, 3)),
    "addcmul_": lambda x, y: x.addcmul_(y, y),
}
ALLOWED = {
    "fill_": lambda x, y: x.fill_(2),
    "zero_": lambda x, y: x.zero_(),
    "number": lambda x, y: x.__setitem__(1, 2),
}


@pytest.mark.parametrize("name", [*WRITES, *ALLOWED])
def test_writes_to_repeated_elements(machine, name):
    for where in ("cpu", machine[0]):
        one = torch.ones(1, device=where)
        x, y = one.expand(3), torch.ones(3, device=where)
        if name in ALLOWED:
            ALLOWED[name](x, y)
            continue
        sim.synchronize()
        moment = sim.now()
        with pytest.raises(RuntimeError, match=OVERLAP):
            WRITES[name](x, y)
        sim.synchronize()
        if name.startswith("copy_") and "peer" not in name:
            assert sim.now() == moment
        assert not sim.is_numeric() or one.item() == 1


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_operation_that_fails_leaves_the_shapes_that_it_leaves_on_the_host():
    (device,) = sim.configure(1)
    for where in ("cpu", device):
        x = torch.arange(16.0, device=where).view(4, 4)
        part = x[:, :3]
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            torch.cat([part[:1], part[1:]], out=x)  # resizes first
        assert (x.shape, x.stride()) == ((4, 3), (3, 1))
        assert (x[:2] + 1).tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_shapes_that_are_remembered_are_those_of_the_call():
    """Of machines that keep shapes: results are remembered, for the next machine, too."""
    for _ in range(2):
        (device,) = sim.configure(1, numerics=False)
        x = torch.empty(2, 3, device=device)
        for shape in ((2, 3), (4,), (2, 3), (4,)):
            out = torch.empty(shape, device=device)
            block = out._block
            assert torch.add(x, x, out=out) is out
            assert (out.shape, out.stride(), out._block) == (x.shape, x.stride(), block)
            assert (out + x).shape == x.shape


def test_the_default_dtype_is_that_of_the_call():
    (device,) = sim.configure(1, numerics=False)
    x = torch.empty(70_000, dtype=torch.int64, device=device)
    try:
        for dtype in (torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            assert torch.sqrt(x).dtype is dtype
    finally:
        torch.set_default_dtype(torch.float32)


def test_numpy_by_force_copies_to_the_host():
    (device,) = sim.configure(1)
    x = torch.ones(2, device=device, requires_grad=True)
    array = x.numpy(force=True)
    assert (type(array), array.tolist()) == (np.ndarray, [1, 1])
    array[0] = 5
    assert x.tolist() == [1, 1]
    for convert in (x.numpy, lambda: x.numpy(force=False), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"sim:0 device type tensor to numpy.*Tensor\.cpu\(\)"):
            convert()
