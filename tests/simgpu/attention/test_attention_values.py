"""Fused attention on simulated GPUs: values against float64, memory, time, random state, races."""

import contextlib
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import simgpu as sim
from simgpu.backend.attention import values

aten = torch.ops.aten
KERNELS = "flash", "efficient", "cudnn"


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def formula(q, k, v, mask=None, causal=False, scale=None, kept=None):
    """Attention as it is written in papers, in float64."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores).tril().bool(), -math.inf)
    weights = torch.softmax(scores, -1).nan_to_num(0)
    return (weights if kept is None else weights * kept) @ v


def kernels_of(trace):
    """Return the fused kernels that ran, without their prefix."""
    prefix = "_scaled_dot_product_"
    spans = [s for s in trace if s.engine == "compute" and s.name.startswith(prefix)]
    return [s.name.removeprefix(prefix) for s in spans]


MASK = draw(9, 9, seed=5) > -0.5
CASES = {
    "plain": {},
    "causal": {"causal": True},
    "bool mask": {"mask": MASK},
    "float mask": {"mask": draw(2, 1, 9, 9, seed=6)},
    "mask of keys": {"mask": draw(2, 1, 1, 9, seed=7) > 0},
    "a query that sees nothing": {"mask": MASK.clone().index_fill_(0, torch.tensor(3), False)},
    "scale": {"scale": 0.7},
}


@pytest.mark.parametrize("block", [values.BLOCK, 25, 1])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("gpu", ["a100", "h100", "k80"])
def test_values_and_gradients_are_those_of_the_formula(gpu, case, block, monkeypatch):
    monkeypatch.setattr(values, "BLOCK", block)
    if block != values.BLOCK and gpu != "a100":
        pytest.skip("blocks do not depend on the GPU")
    (device,) = sim.configure(1, gpu=gpu)
    q, k, v, grad = (draw(2, 4, 9, 8, seed=i) for i in range(4))
    given = dict(CASES[case])
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    expected = formula(*leaves, **given)
    expected.backward(grad)
    mask, causal = given.pop("mask", None), given.pop("causal", False)
    if mask is not None:
        mask = mask.to(device) if mask.dtype is torch.bool else mask.float().to(device)
    found = [x.float().to(device).requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*found, mask, is_causal=causal, **given)
    out.backward(grad.float().to(device))
    assert len(kernels_of(sim.trace())) == (0 if gpu == "k80" else 2)
    for one, other in zip((out, *found), (expected, *leaves), strict=True):
        one, other = (one, other) if one is out else (one.grad, other.grad)
        torch.testing.assert_close(one.detach().cpu().double(), other.detach(), rtol=0, atol=3e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("causal", [False, True])
def test_grouped_queries_in_16_bits(gpu, dtype, causal):
    (device,) = sim.configure(1, gpu=gpu)
    tensors = [draw(2, heads, 12, 20, seed=heads).to(dtype) for heads in (6, 2, 2)]
    leaves = [x.double().requires_grad_() for x in tensors]
    expected = formula(*leaves, causal=causal)
    expected.sum().backward()
    found = [x.to(device).requires_grad_() for x in tensors]
    out = F.scaled_dot_product_attention(*found, is_causal=causal, enable_gqa=True)
    out.sum().backward()
    # Heads of 20 numbers: flash attention pads them, cuDNN takes multiples of 8 only.
    assert kernels_of(sim.trace()) == ["flash_attention", "flash_attention_backward"]
    near = {"rtol": 0, "atol": 0.03 if dtype is torch.bfloat16 else 0.004}
    torch.testing.assert_close(out.detach().cpu().double(), expected.detach(), **near)
    for one, other in zip(found, leaves, strict=True):
        torch.testing.assert_close(one.grad.cpu().double(), other.grad, **near)


def test_a_mask_that_is_learned_gets_its_gradient():
    (device,) = sim.configure(1)
    q, k, v = (draw(2, 3, 8, 4, seed=i) for i in range(3))
    bias = draw(1, 3, 8, 8, seed=9)
    own, far = bias.clone().requires_grad_(), bias.float().to(device).requires_grad_()
    formula(q, k, v, mask=own).square().sum().backward()
    out = F.scaled_dot_product_attention(*(x.float().to(device) for x in (q, k, v)), far)
    out.square().sum().backward()
    assert kernels_of(sim.trace()) == ["efficient_attention", "efficient_attention_backward"]
    torch.testing.assert_close(far.grad.cpu().double(), own.grad, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_backward_pass_drops_what_the_forward_pass_dropped(kernel):
    (device,) = sim.configure(1, gpu="h100" if kernel == "cudnn" else "a100")
    dtype = torch.float32 if kernel == "efficient" else torch.float16
    rate, tensors = 0.25, [draw(2, 2, 16, 16, seed=i).to(dtype) for i in range(3)]
    q, k, v = (x.to(device).requires_grad_() for x in tensors)
    torch.manual_seed(4)
    unit = torch.eye(16, dtype=dtype, device=device).expand(2, 2, 16, 16).contiguous()
    weights = F.scaled_dot_product_attention(q, k, unit, dropout_p=rate)
    kept = (weights != 0).cpu().double() / (1 - rate)
    assert abs(kept.mean() - 1) < 0.1
    torch.manual_seed(4)
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=rate)
    out.square().sum().backward()
    again = F.scaled_dot_product_attention(q, k, v, dropout_p=rate)
    assert set(name.partition("_")[0] for name in kernels_of(sim.trace())) == {kernel}
    assert not torch.equal(out, again)
    leaves = [x.double().requires_grad_() for x in tensors]
    expected = formula(*leaves, kept=kept)
    expected.square().sum().backward()
    near = {"rtol": 0, "atol": 1e-5 if kernel == "efficient" else 0.02}
    torch.testing.assert_close(out.detach().cpu().double(), expected.detach(), **near)
    for one, other in zip((q, k, v), leaves, strict=True):
        torch.testing.assert_close(one.grad.cpu().double(), other.grad, **near)


@pytest.mark.parametrize("kernel", KERNELS)
def test_operations_return_log_sum_exps(kernel):
    (device,) = sim.configure(1)
    q, k, v = (draw(1, 2, 33, 8, seed=i) for i in range(3))
    packed = [x.float().to(device) for x in (q, k, v)]
    rest = {"flash": (), "efficient": (None, True), "cudnn": (None, True)}[kernel]
    out, sums, *_ = getattr(aten, f"_scaled_dot_product_{kernel}_attention")(*packed, *rest)
    expected = torch.logsumexp(q @ k.mT / math.sqrt(8), -1)
    sums = sums.squeeze(-1) if kernel == "cudnn" else sums
    assert sums.shape[-1] == (64 if kernel == "efficient" else 33)
    near = {"rtol": 0, "atol": 2e-6}
    torch.testing.assert_close(sums[..., :33].cpu().double(), expected, **near)
    torch.testing.assert_close(out.cpu().double(), formula(q, k, v), **near)


def test_flash_aligns_a_causal_mask_at_the_end_and_the_others_at_the_start():
    (device,) = sim.configure(1)
    q, k, v = (draw(1, 1, n, 8, seed=n) for n in (3, 5, 5))
    on = [x.float().to(device) for x in (q, k, v)]
    first = torch.ones(3, 5, dtype=torch.bool).tril()
    last = torch.ones(3, 5, dtype=torch.bool).tril(2)
    flash = aten._scaled_dot_product_flash_attention(*on, 0.0, True)[0]
    other = aten._scaled_dot_product_efficient_attention(*on, None, False, 0.0, True)[0]
    near = {"rtol": 0, "atol": 2e-6}
    torch.testing.assert_close(flash.cpu().double(), formula(q, k, v, mask=last), **near)
    torch.testing.assert_close(other.cpu().double(), formula(q, k, v, mask=first), **near)


def test_layers_use_one_kernel_and_learn_as_on_the_host():
    (device,) = sim.configure(1)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    x, twin = torch.randn(2, 10, 32), nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
    twin.load_state_dict(layer.state_dict())
    twin.to(device)
    layer(x).square().sum().backward()
    twin(x.to(device)).square().sum().backward()
    assert kernels_of(sim.trace()) == ["efficient_attention", "efficient_attention_backward"]
    for one, other in zip(layer.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(other.grad.cpu(), one.grad, rtol=1e-4, atol=1e-5)


def test_autocast_and_inference_mode_take_the_kernel_for_their_type():
    (device,) = sim.configure(1)
    attention = nn.MultiheadAttention(32, 4, batch_first=True).to(device)
    x = torch.randn(2, 10, 32, device=device)
    with torch.autocast(device.type, torch.bfloat16):
        out = attention(x, x, x, need_weights=False)[0]
    assert out.dtype is torch.bfloat16
    with torch.inference_mode():
        x = torch.randn(2, 4, 10, 8, dtype=torch.float16, device=device)
        F.scaled_dot_product_attention(x, x, x, is_causal=True)
    assert kernels_of(sim.trace()) == ["flash_attention"] * 2


@pytest.mark.parametrize("kernel", KERNELS)
def test_shapes_alone_have_the_layouts_and_times_of_values(kernel):
    def run(numerics):
        (device,) = sim.configure(1, gpu="h100", numerics=numerics)
        dtype = torch.float32 if kernel == "efficient" else torch.bfloat16
        backend = getattr(SDPBackend, f"{kernel.upper()}_ATTENTION")
        mask = torch.ones(2, 1, 9, 9, dtype=torch.bool, device=device)
        x = torch.ones(2, 9, 3, 4, 8, dtype=dtype, device=device, requires_grad=True)
        q, k, v = x.permute(2, 0, 3, 1, 4)
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(
                q, k, v, None if kernel == "flash" else mask, is_causal=kernel == "flash"
            )
        grads = torch.autograd.grad(out.sum(), (q, k, v))
        layouts = [(y.shape, y.stride(), y.dtype) for y in (out, *grads)]
        return layouts, sim.memory_allocated(device), sim.trace()

    assert run(True) == run(False)


@pytest.mark.parametrize(
    ("gpu", "kernel", "share"), [("a100", "flash", 0.6), ("h100", "cudnn", 0.55)]
)
def test_time_is_that_of_the_products_or_of_what_is_read_and_written(gpu, kernel, share):
    (device,) = sim.configure(1, gpu=gpu, numerics=False)
    spec, (batch, heads, length, size) = sim.find_gpu(gpu), (2, 8, 2048, 128)
    long, short = (
        torch.empty(batch, heads, n, size, dtype=torch.bfloat16, device=device, requires_grad=True)
        for n in (length, 16)
    )
    sim.reset()
    for x, causal in ((long, False), (long, True), (short, False)):
        F.scaled_dot_product_attention(x, x, x, is_causal=causal).sum().backward()
    spans = [s for s in sim.trace() if s.engine == "compute" and "attention" in s.name]
    assert {s.name.split("_")[4] for s in spans} == {kernel}
    flops = 4 * batch * heads * length**2 * size
    assert [s.flops for s in spans[:4]] == [flops, 2.5 * flops, flops / 2, 1.25 * flops]
    for span in spans[:4]:
        seconds = span.flops / (spec.flops["bfloat16"] * share)
        assert span.duration == pytest.approx(spec.kernel_overhead + seconds)
    # Beside tensors of the inputs' size: a log-sum-exp a query, and dropout's random state. (The
    # gradient of a sum is one number, expanded.)
    item, sums = 2 * batch * heads * 16 * size, 4 * batch * heads * 16
    for span, tensors in zip(spans[4:], (4, 7), strict=True):
        assert 0 <= span.bytes - tensors * item - sums < 64
        bandwidth = spec.memory_bandwidth * spec.memory_efficiency
        assert span.duration == pytest.approx(spec.kernel_overhead + span.bytes / bandwidth)


def test_the_scores_are_never_in_memory():
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    shape = batch, heads, length, size = 1, 32, 8192, 128
    q, k, v = (
        torch.empty(shape, dtype=torch.bfloat16, device=device, requires_grad=True)
        for _ in range(3)
    )
    one, sums = 2 * batch * heads * length * size, 4 * batch * heads * length
    before = sim.memory_allocated(device)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert 0 <= sim.memory_allocated(device) - before - one - sums < 4096
    sim.reset_peak_memory_stats(device)
    out.backward(out.detach())
    # The inputs, the output, the sums, and three gradients, of which nothing is left out.
    assert 0 <= sim.max_memory_allocated(device) - 7 * one - sums < 8192
    assert sim.max_memory_allocated(device) < 2 * batch * heads * length**2


@pytest.mark.parametrize(("backend", "grows"), [(None, 2), (SDPBackend.MATH, 3.36)])
def test_activations_of_a_transformer_grow_with_its_length(backend, grows):
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    layer = nn.TransformerEncoderLayer(512, 16, 2048, dropout=0.0, batch_first=True).to(device)

    def kept(length):
        x = torch.empty(4, length, 512, device=device)
        before = sim.memory_allocated(device)
        with sdpa_kernel(backend) if backend else contextlib.nullcontext():
            out = layer(x)
        assert out.shape == x.shape
        return sim.memory_allocated(device) - before

    assert kept(2048) / kept(1024) == pytest.approx(grows, rel=0.05)


def test_races_are_seen_through_the_kernel():
    (device,) = sim.configure(1)
    x = torch.ones(1, 2, 8, 8, device=device)
    side = torch.Stream(device)
    with sim.check_races():
        with side:
            key = x * 2
        with pytest.raises(RuntimeError, match="efficient_attention"):
            F.scaled_dot_product_attention(x, key, x)
