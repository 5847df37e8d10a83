"""What an operation costs: the roofline, the bytes it touches, the peak of its type."""

import pytest
import torch
import torch.nn.functional as F
from support.programs.clock_programs import LARGE, PROMPT, elapsed, settle, spans, square

import simgpu as sim
from simgpu.backend import tensor as backend
from simgpu.backend.operations.run import run as run_any
from simgpu.kernels.facts import lookup


def test_a_product_takes_what_the_roofline_says():
    (device,) = sim.configure(1, gpu=PROMPT, numerics=False)
    x = square(device)
    took = elapsed(lambda: x @ x)
    flops, num_bytes = 2 * LARGE**3, 3 * 4 * LARGE**2
    assert took == pytest.approx(PROMPT.seconds(flops, num_bytes, "float32"), rel=1e-12)
    (span,) = spans(engine="compute")
    assert (span.name, span.flops, span.bytes) == ("mm", flops, num_bytes)


@pytest.mark.parametrize("numerics", [True, False])
def test_a_copy_onto_itself_costs_nothing(numerics):
    """PyTorch calls it for ``x[...] += y``, after the addition to the view."""
    (device,) = sim.configure(1, numerics=numerics)
    x, y = torch.ones(8, device=device), torch.ones(4, device=device)

    def names(run):
        settle()
        run()
        return [span.name for span in spans(engine="compute")]

    def add_to_slice():
        x[:4] += y

    assert names(add_to_slice) == ["add"]
    assert names(lambda: x.view(2, 4).copy_(x.view(2, 4))) == []
    # The same memory, but not the same elements in their places.
    assert names(lambda: x[:4].copy_(x[4:])) == ["copy"]
    assert names(lambda: x.view(2, 4)[:, :2].copy_(x.view(4, 2)[:2])) == ["copy"]
    assert names(lambda: x.copy_(x.view(torch.int32))) == ["copy"]
    assert names(lambda: y.copy_(x[:4])) == ["copy"]


@pytest.mark.parametrize(
    ("run", "num_bytes"),
    [
        (lambda x: x + x, 3),
        (lambda x: x + 1, 2),
        (lambda x: x.add_(1), 2),
        (lambda x: x.fill_(1), 1),
        (lambda x: torch.zeros_like(x), 1),
        (lambda x: x.sum(), 1),
        (lambda x: x + x[:1], 2),
        (lambda x: x.relu(), 2),
    ],
)
def test_elementwise_operations_cost_the_bytes_they_touch(run, num_bytes):
    (device,) = sim.configure(1, numerics=False)
    x = square(device, 1024)
    settle()
    run(x)
    (span,) = spans(engine="compute")
    assert span.bytes == pytest.approx(num_bytes * x.nbytes, rel=0.002)
    assert span.flops == 0


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(-1), lambda x: x.t(), lambda x: x[0], lambda x: x[1:3, ::2],
        lambda x: x.expand(2, 8, 8), lambda x: x.detach(), lambda x: x.unsqueeze(0),
        lambda x: x.chunk(2), lambda x: x.reshape(4, 16), lambda x: torch.empty_like(x),
    ],
)  # fmt: skip
def test_views_cost_nothing(view):
    (device,) = sim.configure(1)
    x = torch.ones(8, 8, device=device)
    settle()
    view(x)
    assert sim.now() == 0
    assert sim.trace() == []


def test_tensor_cores_round_float32_convolutions_but_not_products():
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    spec = sim.get_device_spec(device)
    image = torch.ones(64, 256, 32, 32, device=device, requires_grad=True)
    kernel = torch.ones(256, 256, 3, 3, device=device)
    x = square(device)

    def durations():
        settle()
        F.conv2d(image, kernel).sum().backward()
        x @ x
        return [s for s in sim.trace() if s.flops]

    pixels, channels, n = 64 * 30 * 30, 256, len(x)
    shapes = {
        "convolution": [(pixels, channels, 9 * channels, 1)],
        "convolution_backward": [(pixels, channels, 9 * channels, 1)],  # to the image alone
        "mm": [(n, n, n, 1)],
    }

    def expected(span, peak):
        seconds = spec.seconds(span.flops, span.bytes, peak, shapes[span.name])
        return pytest.approx(seconds, rel=1e-9)

    forward, backward, product = durations()
    assert forward.duration == expected(forward, "tf32")
    assert backward.duration == expected(backward, "tf32")
    assert product.duration == expected(product, "float32")
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = False
        forward, _, product = durations()
        assert forward.duration == expected(forward, "float32")
        assert product.duration == expected(product, "tf32")
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = True


SIMPLE = {
    "add": lambda x: x + x.t(),
    "expanded": lambda x: x[0].expand(3, 8) * 2,
    "sum": lambda x: x.sum(0),
    "product": lambda x: x @ x,
    "half a product": lambda x: x.half() @ x.half(),
    "cat": lambda x: torch.cat([x, x[1:3, ::2].repeat(1, 2)]),
    "convolution": lambda x: F.conv2d(x[None, None], x[None, None, :3, :3]),
    "complex": lambda x: torch.fft.fft(x).conj() * 2,
    "with a host number": lambda x: x * torch.tensor(2.0),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_operations_are_charged_and_computed_as_all_others(name, monkeypatch):
    def record():
        (device,) = sim.configure(1, gpu="a100")
        values = SIMPLE[name](torch.arange(64.0, device=device).view(8, 8))
        return values.stride(), values.cpu(), sim.trace(), sim.max_memory_allocated(device)

    (strides, values, *measured) = record()
    monkeypatch.setitem(backend._handlers, backend.simple, run_any)
    backend._routes.clear()
    try:
        (other_strides, other_values, *expected) = record()
    finally:
        backend._routes.clear()
    assert (strides, measured) == (other_strides, expected)
    assert torch.equal(values, other_values)


def test_simple_are_operations_that_make_one_tensor_and_ask_for_nothing_else():
    aten = torch.ops.aten
    simple = [aten.add.Tensor, aten.mm.default, aten.cat.default, aten._softmax.default]
    others = [
        aten.add_.Tensor, aten.add.out, aten.view.default, aten.bernoulli.default,
        aten.nonzero.default, aten.index.Tensor, aten.topk.default, aten.unbind_copy.int,
        aten._foreach_add.Scalar, aten.zeros_like.default, aten.embedding.default,
    ]  # fmt: skip
    assert all(lookup(func).simple for func in simple)
    assert not any(lookup(func).simple for func in others)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_fused_adam_writes_gradients_only_to_undo_their_scale(scaled):
    (device,) = sim.configure(1, numerics=False)
    parameters, gradients, first, second = ([torch.empty(4096, device=device)] for _ in range(4))
    steps, scale = (torch.ones((), device=device) for _ in range(2))
    rates = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.1, "eps": 1e-8}
    torch._fused_adamw_(
        parameters, gradients, first, second, [], [steps], **rates, amsgrad=False, maximize=False,
        grad_scale=scale if scaled else None,
    )  # fmt: skip
    (span,) = spans(name="_fused_adamw", engine="compute")
    assert span.bytes == pytest.approx((8 if scaled else 7) * 4 * 4096, abs=16)
