"""Products of 16-bit numbers, which the host computes in 32 bits if its CPU is slow at them."""

import pytest
import torch
import torch.nn.functional as F

import simgpu as sim
from simgpu.kernels import on_the_host

HALVES = [torch.bfloat16, torch.float16]
PRODUCTS = {
    "matrices": lambda x, w: x @ w,
    "with a bias": lambda x, w: F.linear(x, w.t(), w[0]),
    "scaled": lambda x, w: torch.addmm(w[0], x, w, beta=0.5, alpha=2.0),
    "a batch": lambda x, w: x[None] @ w[None],
    "a batch and a sum": lambda x, w: torch.baddbmm(w[None, :1], x[None], w[None]),
    "convolution": lambda x, w: F.conv1d(x[None], w[:, :, None].transpose(0, 1), padding=1),
}


@pytest.fixture
def slow(monkeypatch):
    """Take the CPU for one that is slow at all of them."""
    monkeypatch.setattr(on_the_host, "slow_types", lambda: frozenset(HALVES))


def operands(dtype, device="cpu"):
    torch.manual_seed(0)
    return [(torch.randn(64, 64) / 8).to(dtype).to(device).requires_grad_() for _ in range(2)]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_they_are_added_up_in_32_bits_and_rounded_once(slow, name, dtype):
    (device,) = sim.configure(1)
    own, exact = operands(dtype, device), [x.double() for x in operands(dtype)]
    found, wanted = PRODUCTS[name](*own), PRODUCTS[name](*exact)
    assert found.dtype == dtype
    ulp = torch.finfo(dtype).eps
    torch.testing.assert_close(found.double().cpu(), wanted, rtol=0.51 * ulp, atol=1e-6)
    found.float().square().sum().backward()
    assert all(x.grad.dtype == dtype for x in own)


@pytest.mark.parametrize("dtype", HALVES)
def test_strides_and_times_are_as_without(monkeypatch, dtype):
    found = []
    for types in ((), HALVES):
        monkeypatch.setattr(on_the_host, "slow_types", lambda types=types: frozenset(types))
        (device,) = sim.configure(1)
        x = torch.ones(2, 3, 8, 8, dtype=dtype, device=device).to(memory_format=torch.channels_last)
        y = F.conv2d(x, torch.ones(4, 3, 3, 3, dtype=dtype, device=device))
        found.append((y.stride(), [(s.name, s.duration) for s in sim.trace()], y.sum().item()))
    assert found[0] == found[1]
