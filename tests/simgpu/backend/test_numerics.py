"""Simulated tensors compute what CPU tensors compute, bit for bit, forwards and backwards."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import simgpu as sim

X = torch.linspace(-2, 2, 24).reshape(4, 6)
W = torch.linspace(1, -1, 30).reshape(6, 5)
IMAGE = torch.sin(torch.arange(2 * 3 * 8 * 8.0)).reshape(2, 3, 8, 8)
FILTER = torch.cos(torch.arange(4 * 3 * 3 * 3.0)).reshape(4, 3, 3, 3)
INDEX = torch.tensor([2, 0, 3])
LABELS = torch.tensor([1, 0, 5, 2])


def on(device, value):
    """The same tensor on another device (constants of a case must follow its input)."""
    return value.to(device)


# Kinds of operations, and what PyTorch has no samples of: indices, numbers, parts of other tensors.
# (`test_op_samples.py` compares more than a hundred by PyTorch's samples.)
OPS = {
    "add_scalar": lambda x: 2 + x,
    "sub": lambda x: 1 - x,
    "div": lambda x: x / (x * x + 1),
    "pow": lambda x: (x * x + 1) ** 1.5,
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "sum_dim": lambda x: x.sum(1, keepdim=True),
    "max_dim": lambda x: x.max(1).values,
    "quantile": lambda x: torch.quantile(x, torch.tensor([0.25, 0.5], device=x.device), 1),
    "logsumexp": lambda x: x.logsumexp(1),
    "softmax": lambda x: x.softmax(1),
    "matmul": lambda x: x @ on(x.device, W),
    "mm_transposed": lambda x: x @ x.T,
    "bmm": lambda x: x.view(2, 2, 6) @ x.view(2, 6, 2),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "addmm": lambda x: torch.addmm(x[:, :5], x, on(x.device, W)),
    "linear": lambda x: F.linear(x, on(x.device, W).T),
    "reshape": lambda x: x.reshape(3, 8).t().reshape(-1),
    "permute": lambda x: x.view(2, 2, 6).permute(2, 0, 1) + 1,
    "expand": lambda x: x[:, :1].expand(4, 3) * 2,
    "cat": lambda x: torch.cat([x, 2 * x], 1),
    "tensor_split": lambda x: torch.tensor_split(x, 3, 1)[1],
    "chunk": lambda x: sum(x.chunk(2, 1)),
    "unbind": lambda x: x.unbind(0)[2],
    "slice": lambda x: x[1:3, ::2],
    "index_host": lambda x: x[INDEX],
    "index_device": lambda x: x[on(x.device, INDEX)],
    "index_list": lambda x: x[[0, 2], 1:],
    "index_mask": lambda x: x[x > 0],
    "gather": lambda x: x.gather(0, on(x.device, INDEX)[None]),
    "index_add": lambda x: x.index_add(0, on(x.device, INDEX), x[:3]),
    "take_along": lambda x: x.take_along_dim(x.argsort(1), 1),
    "sort": lambda x: x.sort(1, descending=True).values,
    "in_place": lambda x: x.clone().mul_(2).add_(1).relu_(),
    "set_number": lambda x: _assign(x, (0, slice(None)), 3.0),
    "set_tensor": lambda x: _assign(x, slice(1, 3), x[:2] * 2),
    "set_mask": lambda x: _assign(x, x > 0, 1.0),
    "set_list": lambda x: _assign(x, [0, 3], x[1:3]),
    "cast": lambda x: x.double().square().float(),
    "cross_entropy": lambda x: F.cross_entropy(x, on(x.device, LABELS)),
    "cosine": lambda x: F.cosine_similarity(x, x.flip(1)),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
    "fft": lambda x: torch.fft.rfft(x).abs(),
    "conv2d": lambda x: F.conv2d(_image(x), on(x.device, FILTER), padding=1),
    "conv_transpose2d": lambda x: F.conv_transpose2d(
        F.conv2d(_image(x), on(x.device, FILTER)), on(x.device, FILTER)
    ),
    "max_pool2d": lambda x: F.max_pool2d(_image(x), 2),
    "batch_norm": lambda x: F.batch_norm(_image(x), None, None, training=True),
    "attention": lambda x: _attention(x.view(1, 4, 6)),
    "embedding": lambda x: F.embedding(on(x.device, INDEX), x),
}


def _image(x):
    return on(x.device, IMAGE) * x.sum()


def _assign(x, index, value):
    y = x * 1
    y[index] = value
    return y


def _attention(x):
    # The CPU's fused kernel rounds differently; the formula itself is what CUDA's fallback uses.
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def forward_and_gradient(run, x):
    x = x.detach().clone().requires_grad_()
    y = run(x)
    (y * (y.detach() + 1)).sum().backward()
    return y.detach(), x.grad


@pytest.mark.parametrize("name", OPS)
def test_operation_equals_cpu(name):
    _, device = sim.configure(2)
    expected = forward_and_gradient(OPS[name], X)
    found = forward_and_gradient(OPS[name], X.to(device))
    for e, f in zip(expected, found, strict=True):
        assert f.device == device
        assert torch.equal(e, f.cpu())


class Tied(nn.Module):
    """Two layers that share one weight, as language models' first and last layers do."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


class Attention(nn.Module):
    """Self-attention, returning only its values."""

    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(6, 2, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x)[0]


MODULES = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), X),
    "lenet": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)
        ),
        IMAGE,
    ),
    "batch_norm": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1)),
        IMAGE,
    ),
    "layer_norm": (lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.GELU()), X),
    "group_norm": (lambda: nn.Sequential(nn.GroupNorm(3, 3), nn.Conv2d(3, 3, 1)), IMAGE),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)), X),
    "tied": (Tied, X),
    "attention": (Attention, X.view(1, 4, 6)),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(6, 2, 12, dropout=0.1, batch_first=True),
        X.view(1, 4, 6),
    ),
    "lstm": (lambda: nn.LSTMCell(6, 3), X),
    "embedding": (lambda: nn.Sequential(nn.Embedding(10, 6), nn.Linear(6, 2)), LABELS),
}


def run_module(module, x):
    torch.manual_seed(3)  # dropout draws from each device's own generator
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        y = module(x)
    y = y[0] if isinstance(y, tuple) else y
    y.square().sum().backward()
    tensors = [y.detach(), *(p.grad for p in module.parameters()), *module.buffers()]
    return [t.cpu() for t in tensors]


@pytest.mark.parametrize("name", MODULES)
def test_module_equals_cpu(name):
    make, x = MODULES[name]
    (device,) = sim.configure(1)
    torch.manual_seed(0)
    module = make()
    twin = copy.deepcopy(module).to(device)
    expected, found = run_module(module, x), run_module(twin, x.to(device))
    assert len(expected) == len(found)
    assert all(map(torch.equal, expected, found))


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
    "sgd_loop": lambda p: torch.optim.SGD(p, 0.1, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, 0.1, foreach=True),
    "adam_loop": lambda p: torch.optim.Adam(p, 0.1, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, 0.1, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.1, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimiser_equals_cpu(name):
    (device,) = sim.configure(1)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    twin = copy.deepcopy(module).to(device)
    for net in (module, twin):
        optimiser = OPTIMISERS[name](net.parameters())
        for _ in range(3):
            optimiser.zero_grad()
            net(X.to(net[0].weight.device)).square().sum().backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
            optimiser.step()
    for p, q in zip(module.parameters(), twin.parameters(), strict=True):
        assert torch.equal(p, q.cpu())


def test_optimisers_use_foreach_kernels_by_default_as_on_cuda():
    (device,) = sim.configure(1)
    net = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3)).to(device)
    net(X.to(device)).sum().backward()
    sim.reset()
    torch.optim.SGD(net.parameters(), 0.1).step()
    launched = [s.name for s in sim.trace() if s.engine == "compute"]
    assert launched == ["_foreach_add"]  # one for four parameters


def test_one_optimiser_over_two_devices():
    d0, d1 = sim.configure(2)
    nets = nn.ModuleList([nn.Linear(6, 6).to(d0), nn.Linear(6, 6).to(d1)])
    optimiser = torch.optim.Adam(nets.parameters())
    nets[1](nets[0](X.to(d0)).to(d1)).sum().backward()
    before = [p.detach().cpu() for p in nets.parameters()]
    total = nn.utils.clip_grad_norm_(nets.parameters(), 0.1)
    optimiser.step()
    assert total.item() > 0
    assert [p.grad.device for p in nets.parameters()] == [d0, d0, d1, d1]
    assert not any(map(torch.equal, before, (p.detach().cpu() for p in nets.parameters())))


def test_gradients_travel_back_over_devices():
    d0, d1, d2 = sim.configure(3)
    a, b = X.to(d0).requires_grad_(), X.clone().requires_grad_()
    c = torch.ones(4, 6, device=d2, requires_grad=True)
    y = (a * 2).to(d1) * b.to(d1) + c.to(d1)
    y.cpu().sum().backward()
    assert (a.grad.device, b.grad.device, c.grad.device) == (d0, torch.device("cpu"), d2)
    assert torch.equal(a.grad.cpu(), 2 * X)
    assert torch.equal(b.grad, 2 * X)


def test_gradient_of_copies_into_slices_of_other_devices():
    d0, d1 = sim.configure(2)
    a = X.to(d0).requires_grad_()
    for target in (torch.zeros(8, 6, device=d1), torch.zeros(8, 6)):
        target[2:6] = a
        target.sum().backward()
        assert a.grad.device == d0
        assert torch.equal(a.grad.cpu(), torch.ones(4, 6))
        a.grad = None


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_repeats_dropout(reentrant):
    from torch.utils.checkpoint import checkpoint

    (device,) = sim.configure(1)
    w = torch.ones(6, 6, device=device, requires_grad=True)

    def block(x):
        return F.dropout(x @ w, 0.5)

    gradients = []
    for run in (block, lambda x: checkpoint(block, x, use_reentrant=reentrant)):
        torch.manual_seed(1)
        run(X.to(device).requires_grad_()).sum().backward()
        gradients.append(w.grad.cpu())
        w.grad = None
    assert torch.equal(*gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_is_one_kernel_and_keeps_a_byte_for_each_number(dtype):
    (device,) = sim.configure(1)
    x = torch.full((1024, 1024), 2.0, device=device, dtype=dtype, requires_grad=True)
    torch.manual_seed(5)
    kept = torch.empty_like(x).bernoulli_(0.75).cpu().bool()  # the numbers that it draws
    torch.manual_seed(5)
    before, launched = sim.memory_allocated(device), len(sim.trace())
    y = F.dropout(x, 0.25)
    assert sim.memory_allocated(device) - before == y.nbytes + 2**20
    kernels = [span for span in sim.trace()[launched:] if span.engine == "compute"]
    assert [k.name for k in kernels] == ["native_dropout"]
    scaled = torch.where(kept, 1 / 0.75, 0.0)
    assert torch.equal(y.cpu(), (2 * scaled).to(dtype))
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), scaled.to(dtype))


def test_autocast_follows_the_rules_of_cuda():
    (device,) = sim.configure(1)
    net = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 6)).to(device)
    x = X.to(device)
    with torch.autocast("sim", dtype=torch.bfloat16):
        y = net(x)
        loss = F.cross_entropy(y, LABELS.to(device))
        assert (y.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
        assert (x + y).dtype == torch.float32
        assert Attention().to(device)(x.view(1, 4, 6)).dtype == torch.bfloat16
    loss.backward()
    assert net[0].weight.grad.dtype == torch.float32
    assert net(x).dtype == torch.float32  # the rules end with the block
    with torch.autocast("cpu", dtype=torch.bfloat16):
        reference = copy.deepcopy(net).cpu()(X)
    assert torch.allclose(y.cpu().float(), reference.float(), atol=0.05)


def test_random_numbers_depend_on_the_seed_alone():
    d0, d1 = sim.configure(2)
    torch.manual_seed(7)
    first = [torch.randn(3, device=d) for d in (d0, d1, d0)]
    assert torch.equal(first[0].cpu(), first[1].cpu())  # every device starts from the seed
    assert not torch.equal(first[0].cpu(), first[2].cpu())
    torch.manual_seed(7)
    torch.rand(5)  # the host's generator is another one
    assert torch.equal(torch.randn(3, device=d0).cpu(), first[0].cpu())
    state = torch.get_rng_state()
    for draw in (torch.rand_like, torch.randn_like, torch.bernoulli, F.dropout):
        draw(torch.full((3,), 0.5, device=d0))
    assert torch.equal(torch.get_rng_state(), state)


def test_configure_starts_from_the_last_seed():
    torch.manual_seed(11)
    draws = []
    for _ in range(2):
        (device,) = sim.configure(1)
        draws.append(torch.rand(4, device=device).cpu())
    assert torch.equal(*draws)


VIEWS = {
    "view": lambda x: x.view(-1),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "expand": lambda x: x.unsqueeze(0).expand(1, -1, -1),
    "t": torch.t,
    "index": lambda x: x[0],
    "slice": lambda x: x[:2, 1:],
    "chunk": lambda x: x.chunk(2)[1],
    "unbind": lambda x: x.unbind()[0],
    "detach": torch.detach,
    "of a view": lambda x: x.view(-1)[2:],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("made_there", [False, True])
def test_views_in_inference_mode_are_what_they_are_on_the_host(name, made_there):
    """Of a tensor made before they are normal tensors, of one made there they are not."""
    (device,) = sim.configure(1)
    found = []
    for place in ("cpu", device):
        x = (torch.arange(12.0).view(4, 3) + 1).to(place)
        with torch.inference_mode():
            x = x + 1 if made_there else x
            view = VIEWS[name](x)
            again = VIEWS[name](x).mul_(2)
            versions = None if made_there else (x._version, view._version)
            found.append((view.tolist(), again.is_inference(), versions, x.sum().item()))
    assert found[0] == found[1]
    assert found[0][1] == made_there


@pytest.mark.parametrize("name", sorted(MODULES))
def test_inference_mode_and_no_grad_cost_and_give_the_same(name):
    make, x = MODULES[name]
    results = []
    for mode in (torch.no_grad, torch.inference_mode):
        (device,) = sim.configure(1)
        torch.manual_seed(0)
        with mode():
            module = make().to(device)
            y = module(x.to(device))
            y = y[0] if isinstance(y, tuple) else y
            results.append((sim.now(), sim.trace(), y.tolist()))
    assert results[0] == results[1]


def test_packed_sequences_and_lengths_on_the_host():
    (device,) = sim.configure(1)
    lengths = torch.tensor([3, 2])
    torch.manual_seed(0)
    net, x = nn.LSTM(4, 5, batch_first=True), torch.arange(24.0).reshape(2, 3, 4).sin()
    results = []
    for where in ("cpu", device):
        net.to(where)
        packed = nn.utils.rnn.pack_padded_sequence(x.to(where), lengths, batch_first=True)
        assert packed.batch_sizes.device.type == "cpu"
        y, _ = nn.utils.rnn.pad_packed_sequence(net(packed)[0], batch_first=True)
        (grad,) = torch.autograd.grad(y.square().sum(), net.weight_ih_l0)
        scores = y.log_softmax(2).transpose(0, 1).detach().requires_grad_()
        targets = torch.tensor([[1], [2]], device=where)
        F.ctc_loss(scores, targets, lengths, lengths // 2, reduction="sum").backward()
        results.append([y.detach().cpu(), grad.cpu(), scores.grad.cpu()])
    assert all(map(torch.allclose, *results))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("lengths", ["host", "sim", "mixed", "numbers"])
def test_ctc_loss_takes_lengths_from_either_side(reduction, lengths):
    (device,) = sim.configure(1)
    scores = X.sin().view(4, 2, 3)
    targets, ends = torch.tensor([[1, 2], [2, 1]]), torch.tensor([[4, 3], [2, 1]])

    def loss_and_gradient(device, ends):
        x = scores.to(device).detach().clone().requires_grad_()
        loss = F.ctc_loss(x.log_softmax(2), targets.to(device), *ends, reduction=reduction)
        with torch.inference_mode():
            again = F.ctc_loss(x.log_softmax(2), targets.to(device), *ends, reduction=reduction)
        assert torch.equal(again.cpu(), loss.cpu())
        (gradient,) = torch.autograd.grad(loss.sum(), x)
        return loss.detach().cpu(), gradient.cpu()

    expected = loss_and_gradient("cpu", ends)
    first, second = {
        "host": ends, "sim": ends.to(device), "mixed": (ends[0], ends[1].to(device)),
        "numbers": ends.tolist(),
    }[lengths]  # fmt: skip
    assert all(map(torch.equal, loss_and_gradient(device, (first, second)), expected))


def test_mish_goes_back_in_one_kernel_as_on_cuda():
    (device,) = sim.configure(1)
    expected, x = X.clone().requires_grad_(), X.to(device).requires_grad_()
    F.mish(expected).sum().backward()
    sim.reset()
    F.mish(x).sum().backward()
    assert "mish_backward" in [span.name for span in sim.trace()]
    assert torch.equal(x.grad.cpu(), expected.grad)
    for y in (expected, x):  # what has to be differentiable again is taken apart
        (first,) = torch.autograd.grad(F.mish(y).sum(), y, create_graph=True)
        y.grad = None
        first.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), expected.grad)
    meta = torch.ones(2, device="meta", requires_grad=True)
    assert torch.autograd.grad(F.mish(meta).sum(), meta)[0].device.type == "meta"


@pytest.mark.parametrize("numerics", [True, False])
def test_rms_norm_is_one_kernel_forward_and_one_backward_as_on_cuda(numerics):
    (device,) = sim.configure(1, numerics=numerics)

    def results(device):
        x, scale = (torch.sin(t).to(device).requires_grad_() for t in (X, torch.arange(6.0)))
        y = F.rms_norm(x, (6,), scale)
        return y, *torch.autograd.grad(y, (x, scale), torch.cos(X).to(device))

    sim.reset()
    found = results(device)
    names = [span.name for span in sim.trace() if span.engine == "compute"]
    assert names == ["_fused_rms_norm", "_fused_rms_norm_backward"]
    if numerics:
        torch.testing.assert_close([t.cpu() for t in found], [*results("cpu")])
    with torch.inference_mode():
        assert F.rms_norm(found[0], (6,)).shape == X.shape
    assert sim.trace()[-1].name == "_fused_rms_norm"  # undecomposed, too


def test_rms_norm_is_taken_apart_where_cuda_has_no_kernel():
    """With a weight of another type, and for what has to be differentiable again."""
    (device,) = sim.configure(1)
    scale = torch.ones(6)
    with pytest.warns(UserWarning, match="Mismatch dtype"):
        F.rms_norm(X.to(device).bfloat16(), (6,), scale.to(device))
    assert "_fused_rms_norm" not in {span.name for span in sim.trace()}
    twice = []
    for x in (X.clone().requires_grad_(), X.to(device).requires_grad_()):
        y = F.rms_norm(x, (6,), scale.to(x.device)).pow(3).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        twice += torch.autograd.grad(first.square().sum(), x)
    torch.testing.assert_close(twice[1].cpu(), twice[0])


NEEDS_VALUES = {"index_mask", "set_mask"}


@pytest.mark.parametrize("name", [*sorted(set(OPS) - NEEDS_VALUES), *MODULES])
def test_shapes_alone_give_the_same_shapes_and_the_same_trace(name):
    def run(numerics):
        (device,) = sim.configure(1, numerics=numerics)
        if name in OPS:
            results = forward_and_gradient(OPS[name], X.to(device))
        else:
            make, x = MODULES[name]
            module, x = make().to(device), x.to(device)
            y = module(x)
            y = y[0] if isinstance(y, tuple) else y
            y.square().sum().backward()
            results = [y, *(p.grad for p in module.parameters())]
        for _ in range(2 if name in OPS else 0):  # from what was worked out before
            OPS[name](X.to(device))
        return [(r.shape, r.stride(), r.dtype, r.device) for r in results], sim.trace()

    assert run(True) == run(False)


def test_a_known_operand_is_forgotten_where_the_result_has_a_place():
    """Integers keep their values without numerics, until they meet numbers that have none."""

    def run(numerics):
        (device,) = sim.configure(1, numerics=numerics)
        x, out = torch.rand(4, device=device), torch.empty(4, device=device)
        result = torch.div(torch.arange(4, device=device), x, out=out)
        assert result is out
        return out.shape, out.dtype, sim.trace()

    assert run(True) == run(False)


def test_equal_numbers_that_meet_values_lie_as_they_did():
    (device,) = sim.configure(1, numerics=False)
    mask = torch.ones(2, 3, 4, 5, dtype=torch.bool, device=device)
    mask[0] = False  # it has values now, not one number
    mask = mask.contiguous(memory_format=torch.channels_last)
    ones = torch.ones(2, 3, 4, 5, device=device).contiguous(memory_format=torch.channels_last)
    assert (ones * mask).is_contiguous(memory_format=torch.channels_last)
    ones.mul_(mask)
    assert ones.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("module", ["attention", "encoder layer"])
def test_fused_inference_counts_the_flops_of_its_parts(module):
    (device,) = sim.configure(1)
    x = torch.ones(8, 16, 64, device=device)
    if module == "attention":
        net = nn.MultiheadAttention(64, 4, batch_first=True)
        net, inputs = net.to(device).eval(), (x, x, x)
    else:
        net = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        net, inputs = net.to(device).eval(), (x,)
    sim.reset()
    net(*inputs)
    parts = [span for span in sim.trace() if span.engine == "compute"]
    sim.reset()
    with torch.no_grad():
        net(*inputs)
    fused = [span for span in sim.trace() if span.engine == "compute"]
    assert len(fused) < len(parts)
    assert sum(s.flops for s in fused) == sum(s.flops for s in parts)
