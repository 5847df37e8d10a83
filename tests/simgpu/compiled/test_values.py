"""Compiled code computes what eager code does, to the bit, whatever is compiled and how."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import simgpu as sim
from simgpu.compiled.regions import Region

pytestmark = pytest.mark.usefixtures("compiler")


def network(device):
    """Return a small network with batch norm and dropout, always the same."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1),
        nn.Linear(16, 8), nn.LayerNorm(8), nn.BatchNorm1d(8),
    ).to(device)  # fmt: skip


def train(call_of, autocast=False):
    """Train a network, called as `call_of(network)` calls it; return all that comes out."""
    (device,) = sim.configure(1)
    model = network(device)
    call = call_of(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(1)
    values = []
    for _ in range(3):
        x = torch.randn(4, 8, device=device, requires_grad=True)
        with torch.autocast("sim", torch.bfloat16, enabled=autocast):
            loss = (call(x).float() ** 3).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        values += [loss.item(), *x.grad.flatten().tolist()]
    state = model.state_dict().values()
    return values + torch.cat([v.detach().cpu().flatten().double() for v in state]).tolist()


@functools.cache
def eager(autocast=False):
    return train(lambda model: model, autocast)


def a_module(model):
    return torch.compile(model)


def the_method(model):
    model.compile()
    return model


def each_layer(model):
    for layer in model:
        layer.compile()
    return model


def nested(model):
    model[0].compile()
    model[4].compile(mode="reduce-overhead")
    return torch.compile(model)


def a_function(model):
    return torch.compile(lambda x: model(x))


def a_decorator(model):
    @torch.compile
    def call(x):
        return model(x)

    return call


def a_decorator_with_arguments(model):
    @torch.compile(mode="max-autotune", dynamic=False, fullgraph=True)
    def call(x):
        return model(x)

    return call


def a_decorated_method(model):
    class Owner:
        @torch.compile
        def call(self, x):
            return model(x)

    return Owner().call


def checkpointed_outside(model):
    model.compile()
    return lambda x: checkpoint(model, x, use_reentrant=False)


def checkpointed_outside_reentrantly(model):
    model.compile()
    return lambda x: checkpoint(model, x, use_reentrant=True)


def checkpointed_inside(model):
    return torch.compile(lambda x: checkpoint(model, x, use_reentrant=False))


def checkpointed_inside_reentrantly(model):
    return torch.compile(lambda x: checkpoint(model, x, use_reentrant=True))


def in_several_graphs(model):
    @torch.compile
    def call(x):
        for layer in model:
            x = layer(x)
            assert x.sum().item() < 1e9
        return x

    return call


def keep_products():
    keep = [torch.ops.aten.addmm.default, torch.ops.aten.mm.default]
    return create_selective_checkpoint_contexts(keep)


def checkpointed_selectively(model):
    model.compile()
    return lambda x: checkpoint(model, x, use_reentrant=False, context_fn=keep_products)


def checkpointed_selectively_inside(model):
    return torch.compile(checkpointed_selectively(model))


PLAIN = [
    a_module, the_method, each_layer, nested, a_function, a_decorator, a_decorator_with_arguments,
    a_decorated_method, in_several_graphs,
]  # fmt: skip
CHECKPOINTED = [
    checkpointed_outside, checkpointed_outside_reentrantly, checkpointed_inside,
    checkpointed_inside_reentrantly, checkpointed_selectively, checkpointed_selectively_inside,
]  # fmt: skip


@pytest.mark.parametrize("how", PLAIN)
def test_a_training(how, compiler):
    assert train(how) == eager()
    assert any(record.plans for record in compiler.records)


@pytest.mark.parametrize("how", CHECKPOINTED)
def test_a_checkpointed_training(how):
    """Recomputed batch norm counts its batch twice, in eager code as in compiled code."""
    reentrant = how.__name__.endswith("reentrantly")
    assert train(how) == train(
        lambda model: functools.partial(checkpoint, model, use_reentrant=reentrant)
    )


def test_a_training_in_autocast():
    assert train(a_module, autocast=True) == eager(autocast=True) != eager()


def test_no_gradients():
    (device,) = sim.configure(1)
    model = network(device).eval()
    x = torch.randn(4, 8, device=device)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            expected, found = model(x), torch.compile(model)(x)
            assert torch.equal(expected, found)
            assert found.is_inference() == expected.is_inference()
            assert not found.requires_grad


def step_of(model):
    """Return a whole step of training as a function."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)

    def step(x):
        loss = (model(x) ** 3).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def test_a_whole_step():
    def run(compile):
        (device,) = sim.configure(1)
        step = compile(step_of(network(device)))
        torch.manual_seed(1)
        return [step(torch.randn(4, 8, device=device)).item() for _ in range(4)]

    assert run(torch.compile) == run(lambda step: step)


def both_ways(function, *shapes):
    """Call a function, given how to compile, with the same tensors twice; return both results."""
    (device,) = sim.configure(1)
    found = []
    for compile in (Region, lambda function: function):
        torch.manual_seed(0)
        tensors = [torch.randn(shape, device=device) for shape in shapes]
        found.append(function(compile, *tensors))
    return found


def assert_same(function, *shapes):
    first, second = both_ways(function, *shapes)
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


def test_changes_in_place_and_views():
    def change(x, total, table):
        y = x * 2
        y += 1
        part = y[:, :4]
        part.mul_(3)
        total.add_(y.sum(0))
        table[1] = y.mean(0)
        copied = torch.zeros_like(y)
        copied[:, 2:5] = y[:, 2:5]
        copied.index_add_(0, torch.tensor([0, 1], device=x.device), y[:2])
        return x, part, y.t(), copied, total, {"flat": y.view(-1), "nothing": None, "number": 3}

    def program(compile, x, total, table):
        out = compile(change)(x, total, table)
        assert out[0] is x
        assert out[4] is total
        assert out[5]["number"] == 3
        assert out[1]._base is not None
        out[5]["flat"].add_(1)
        assert torch.equal(out[1], out[2].t()[:, :4])  # one memory
        return [*out[:5], out[5]["flat"], table]

    assert_same(program, (8, 8), (8,), (3, 8))


def test_gradients_of_views_and_of_a_returned_input():
    def program(compile, x):
        x.requires_grad_()
        same, product, part, turned = compile(lambda x: (x, x.sin() * x, x[1:], x.t()))(x)
        assert same is x
        (product.sum() + 2 * part.sum() + same.sum() + turned[0].sum()).backward()
        return [x.grad]

    assert_same(program, (8, 8))


def test_a_result_is_changed_in_place():
    def program(compile, x):
        x.requires_grad_()
        y = compile(lambda x: x * 3)(x)
        assert not y.is_leaf
        y += 1
        (y * y).sum().backward()
        return [y, x.grad]

    assert_same(program, (4, 4))


def test_an_input_is_changed_in_place():
    def program(compile, x):
        leaf = x.requires_grad_()
        x = leaf * 1
        y = compile(lambda x: x.mul_(2).sin())(x)
        (y.sum() + x.sum()).backward()
        return [x, y, leaf.grad]

    assert_same(program, (4, 4))


def test_gradients_of_gradients():
    def program(compile, x):
        x.requires_grad_()
        function = compile(lambda x: (x.sin() * x).exp())
        (gradient,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        gradient.pow(2).sum().backward()
        return [gradient, x.grad]

    assert_same(program, (4, 4))


def test_a_graph_that_is_retained():
    def program(compile, x):
        x.requires_grad_()
        y = compile(lambda x: x.sin() * x)(x).sum()
        y.backward(retain_graph=True)
        y.backward()
        return [x.grad]

    assert_same(program, (4, 4))


def test_the_gradient_of_one_input_alone():
    def program(compile, x, weight):
        x.requires_grad_()
        weight.requires_grad_()
        y = compile(lambda x, weight: F.linear(x, weight).relu())(x, weight)
        return torch.autograd.grad(y.sum(), [weight])

    assert_same(program, (4, 8), (8, 8))


def test_results_that_no_gradient_reaches():
    def program(compile, x):
        x.requires_grad_()
        _, loss = compile(lambda x: (x.exp(), x.sin().sum()))(x)
        loss.backward()
        return [x.grad]

    assert_same(program, (4, 4))


def test_what_is_printed():
    (device,) = sim.configure(1)
    texts = []

    @torch.compile
    def call(x):
        y = x * 2 + 1
        if y.sum().item() > 0:
            y = y - 1
        texts.append(str(y))
        return y * 3

    out = call(torch.ones(2, 2, device=device))
    assert out.tolist() == [[6.0, 6.0]] * 2
    assert texts == [str(torch.full((2, 2), 2.0, device=device))]


def test_it_is_called_as_the_function_is():
    @torch.compile
    def call(x, *, factor=2, **more):
        """Multiply."""
        return factor * x, more

    (device,) = sim.configure(1)
    out, more = call(torch.ones(2, device=device), factor=3, name="some")
    assert (out.tolist(), more) == ([3.0, 3.0], {"name": "some"})
    assert (call.__name__, call.__doc__) == ("call", "Multiply.")
