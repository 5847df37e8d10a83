"""Products of 16-bit numbers: values of tensor cores, which add in float32 and round once."""

import pytest
import torch

import simgpu as sim
from simgpu.kernels import half_products

SHAPES = {
    "mm": ((24, 300), (300, 40)),
    "addmm": ((40,), (24, 300), (300, 40)),
    "bmm": ((3, 24, 300), (3, 300, 40)),
    "baddbmm": ((3, 24, 40), (3, 24, 300), (3, 300, 40)),
    "conv2d": ((2, 8, 9, 9), (4, 8, 3, 3), (4,)),
}


@pytest.fixture(autouse=True)
def a_processor_without_16_bit_products(monkeypatch):
    monkeypatch.setattr(half_products, "_SLOW", (torch.float16, torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SHAPES)
def test_values_are_those_of_float32_rounded_once(name, dtype):
    (device,) = sim.configure(1, gpu="a100")
    operands = [torch.randn(shape, dtype=dtype) for shape in SHAPES[name]]
    ours = [x.to(device).requires_grad_() for x in operands]
    wide = [x.float().requires_grad_() for x in operands]
    out, expected = (getattr(torch, name)(*values) for values in (ours, wide))
    assert torch.equal(out.cpu(), expected.to(dtype))
    gradient = torch.randn_like(expected).to(dtype)
    out.backward(gradient.to(device))
    expected.backward(gradient.float())
    for one, other in zip(ours, wide, strict=True):
        rounded = other.grad.to(dtype)
        torch.testing.assert_close(one.grad.cpu(), rounded, rtol=0.02, atol=0.02)


def test_the_hosts_own_kernels_for_16_bit_numbers_are_not_called(monkeypatch):
    seen = []
    compute = half_products.through_float32(lambda *args: seen.append(args[0].dtype) or args[0])
    assert compute(torch.ones(2, 2).half(), torch.ones(2, 2).half()).dtype is torch.float16
    assert seen == [torch.float32]


def test_operands_of_two_types_are_refused_as_ever():
    (device,) = sim.configure(1, gpu="a100")
    with pytest.raises(RuntimeError, match="dtype"):
        torch.ones(2, 2, device=device).half() @ torch.ones(2, 2, device=device)
