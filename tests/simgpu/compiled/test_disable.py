"""`torch.compiler.disable`, and Dynamo's own: it is eager code, also where a region calls it."""

import pytest
import torch
from support.programs.clock_programs import spans
from torch import nn
from torch.utils.checkpoint import checkpoint

import simgpu as sim

pytestmark = pytest.mark.usefixtures("compiler")
N = 64


@pytest.fixture
def x():
    (device,) = sim.configure(1)
    x = torch.randn(N, N, device=device, requires_grad=True)
    sim.synchronize()
    sim.reset()
    return x


def kernels():
    sim.synchronize()
    return [span.name for span in spans(engine="compute")]


def middle(x):
    return x.sin() * 2


def gradient(function, x):
    x.grad = None
    y = function(x)
    y.sum().backward()
    return y, x.grad


def decorated_with(disable):
    inner = disable(middle)

    @torch.compile
    def function(x):
        return inner(x.exp() + 1).cos() - 1

    return function


WAYS = {  # as functions: the name is replaced while a test runs
    "called": lambda function: torch.compiler.disable(function),
    "decorator": lambda function: torch.compiler.disable()(function),
    "reason": lambda function: torch.compiler.disable(reason="it is slow")(function),
    "Dynamo": lambda function: torch._dynamo.disable(function),
    "Dynamo's decorator": lambda function: torch._dynamo.disable(recursive=True)(function),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_eager_code_in_both_passes(way, x):
    function = decorated_with(WAYS[way])
    with torch.no_grad():
        function(x)
    first, *eager, last = kernels()
    assert "exp" in first or "add" in first
    assert eager == ["sin", "mul"]
    assert last.startswith("triton")
    sim.reset()
    y, grad = gradient(function, x)
    names = kernels()
    begin = names.index("sum") + 1  # the backward pass
    assert names[begin:].count("cos") == 1  # of the sine's formula, a kernel of its own
    expected = gradient(lambda x: middle(x.exp() + 1).cos() - 1, x)
    assert torch.equal(y, expected[0])
    assert torch.equal(grad, expected[1])


def test_without_it_all_is_one_kernel(x):
    with torch.no_grad():
        decorated_with(lambda f: f)(x)
    assert len(kernels()) == 1


def test_what_pytorch_disables_of_its_own_is_in_the_region(x):
    def function(x):
        return checkpoint(middle, x + 1, use_reentrant=False).cos()

    with torch.no_grad():
        torch.compile(function)(x)
    assert len(kernels()) == 1


def test_a_module(x):
    inner = nn.GELU()
    disabled = torch.compiler.disable(inner)
    with torch.no_grad():
        found = torch.compile(lambda x: disabled(x + 1) * 2)(x)
    assert "gelu" in kernels()
    assert torch.equal(found, inner(x + 1) * 2)


def test_it_is_called_outside_of_regions_as_before(x):
    """As a decorator of a method, too."""

    class Owner:
        @torch.compiler.disable
        def call(self, x, *, factor=1):
            """Multiply."""
            return x * factor

    owner = Owner()
    assert torch.equal(owner.call(x, factor=3), x * 3)
    assert owner.call.__doc__ == "Multiply."
    assert torch.equal(torch.compile(lambda x: owner.call(x, factor=3))(x), x * 3)


def test_an_error_goes_through_it(x):
    @torch.compiler.disable
    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        torch.compile(lambda x: fails(x + 1))(x)
    sim.reset()
    x + 1
    assert kernels() == ["add"]
