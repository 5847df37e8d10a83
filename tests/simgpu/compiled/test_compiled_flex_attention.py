"""`flex_attention` in compiled code is one kernel, which works on the blocks of its mask."""

import pytest
import torch
from support.programs.clock_programs import spans
from support.programs.failing import FailsBackward
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import create_block_mask

import simgpu as sim
from simgpu.compiled.regions import Region
from simgpu.run.cuda import flex_attention

pytestmark = pytest.mark.usefixtures("compiler")
BLOCK, LENGTH = 128, 1024
BLOCKS = LENGTH // BLOCK
FLOPS = 2 * 2 * 2 * 2 * 16 * BLOCK**2  # of a block: batch, heads, two products of 16 features


def parts(device, length, heads=2, size=16, requires_grad=True):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, length, size) for _ in range(3))
    return [x.to(device).requires_grad_(requires_grad) for x in (q, k, v)]


def causal(b, h, i, j):
    return i >= j


def window(b, h, i, j):
    return (i >= j) & (i - j < BLOCK)


def distance(score, b, h, i, j):
    return score - 0.1 * (i - j).abs()


def flops(name="flex_attention"):
    (span,) = spans(name=name, engine="compute")
    return span.flops


@pytest.mark.parametrize("score_mod", [None, distance])
@pytest.mark.parametrize("mask", [None, causal, window])
def test_values_and_gradients_are_those_of_eager_code(mask, score_mod):
    (device,) = sim.configure(1)
    mask = mask and create_block_mask(mask, None, None, 160, 160, device=device)

    def run(function):
        q, k, v = parts(device, 160)
        out, lse = function(q * 2, k, v, score_mod=score_mod, block_mask=mask, return_lse=True)
        (out.sin().sum() + lse.sum()).backward()
        return [out, lse, q.grad, k.grad, v.grad]

    eager = run(flex.flex_attention)
    assert not spans(name="flex_attention")
    compiled = run(torch.compile(flex.flex_attention))
    assert flops() > 0
    assert flops("flex_attention_backward") == 2.5 * flops()
    assert all(torch.equal(one, other) for one, other in zip(eager, compiled, strict=True))


@pytest.mark.parametrize("given", ["q", "k", "v"])
def test_the_gradient_of_one_input(given):
    (device,) = sim.configure(1)

    def run(function):
        tensors = dict(zip("qkv", parts(device, 64), strict=True))
        out = function(*tensors.values()).exp() * 2
        return torch.autograd.grad(out.sum(), [tensors[given]])[0], out

    eager, compiled = run(flex.flex_attention), run(torch.compile(flex.flex_attention))
    assert torch.equal(eager[0], compiled[0])
    sim.reset()
    torch.ones(8, device=device).exp()
    assert [s.name for s in spans(engine="compute")] == ["ones", "exp"]


def masks(device):
    """Return masks, and the number of blocks in which they show anything."""
    document = torch.arange(LENGTH, device=device) // (2 * BLOCK)
    rows = BLOCKS * (BLOCKS + 1) // 2
    return {
        "none": (None, BLOCKS**2),
        "causal": (causal, rows),
        "window": (window, 2 * BLOCKS - 1),
        "documents": (lambda b, h, i, j: document[i] == document[j], 2 * BLOCKS),
        "in documents": (
            lambda b, h, i, j: (document[i] == document[j]) & (i >= j), 3 * BLOCKS // 2
        ),
    }  # fmt: skip


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize("name", ["none", "causal", "window", "documents", "in documents"])
def test_flops_are_those_of_the_blocks_that_a_mask_shows(name, numerics):
    (device,) = sim.configure(1, numerics=numerics)
    function, blocks = masks(device)[name]
    assert flops_of(device, function) == blocks * FLOPS


def only_fused(note):
    assert note == flex_attention.FUSED


def flops_of(device, function, warn=only_fused):
    mask = function and create_block_mask(function, None, None, LENGTH, LENGTH, device=device)
    q, k, v = parts(device, LENGTH, requires_grad=False)
    sim.reset()
    Region(flex_attention.make(warn))(q, k, v, block_mask=mask)
    return flops()


def test_a_mask_that_depends_on_unknown_values_is_assumed_to_show_half():
    (device,) = sim.configure(1, numerics=False)
    document, notes = torch.randint(9, (LENGTH,), device=device), []
    found = flops_of(device, lambda b, h, i, j: document[i] == document[j], notes.append)
    assert found == BLOCKS**2 // 2 * FLOPS
    assert notes == [flex_attention.FUSED, flex_attention.ASSUMED]


def test_no_square_matrix_takes_memory():
    def growth(compile):
        (device,) = sim.configure(1, numerics=False)
        q, k, v = parts(device, 4096)
        mask = create_block_mask(causal, None, None, 4096, 4096, device=device)
        function = compile(flex.flex_attention)
        before = sim.memory_allocated()
        sim.reset_peak_memory_stats()
        out = function(q, k, v, block_mask=mask)
        kept = sim.memory_allocated() - before
        out.sum().backward()
        return kept, sim.max_memory_allocated() - before, q._data.nbytes, sim.memory_allocated()

    kept, peak, one, end = growth(torch.compile)
    assert kept == one
    assert 4 * one <= peak < 8 * one  # the result, three gradients, and that of the result
    eager = growth(lambda function: function)
    assert eager[0] > 100 * one
    assert end == eager[3]


def test_time_follows_the_mask():
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    q, k, v = parts(device, 4096, size=64, requires_grad=False)
    attend = torch.compile(flex.flex_attention)

    def seconds(function):
        mask = create_block_mask(function, None, None, 4096, 4096, device=device)
        sim.reset()
        attend(q, k, v, block_mask=mask)
        (span,) = spans(name="flex_attention", engine="compute")
        return span.duration

    half, thin = seconds(causal), seconds(window)
    assert half > 5 * thin


def test_an_error_in_the_backward_pass_hides_nothing_later():
    (device,) = sim.configure(1)
    q, k, v = parts(device, 64)

    def failing(score, b, h, i, j):
        return FailsBackward.apply(score)

    out = torch.compile(flex.flex_attention)(q, k, v, score_mod=failing)
    with pytest.raises(KeyError, match="mine"):
        out.sum().backward()
    before = sim.memory_allocated()
    sim.reset()
    x = torch.ones(1024, device=device).exp()
    assert [s.name for s in spans(engine="compute")] == ["ones", "exp"]
    assert sim.memory_allocated() == before + x._data.nbytes


def test_what_a_region_makes_after_it_is_counted():
    (device,) = sim.configure(1, numerics=False)
    q, k, v = parts(device, 64)

    def attend_and_make(q, k, v):
        return flex.flex_attention(q, k, v), torch.empty(2**20, dtype=torch.uint8, device=device)

    before = sim.memory_allocated()
    out, buffer = Region(attend_and_make)(q, k, v)
    assert sim.memory_allocated() - before >= out.nbytes + buffer.nbytes
