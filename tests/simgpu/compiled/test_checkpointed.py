"""Checkpoints inside a region: what is kept, when the rest is done again, and equal values."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from support.programs.clock_programs import spans
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import simgpu as sim
from simgpu.compiled.regions import Region

N, WIDTH, INNER = 1024, 256, 1024
HIDDEN = 4 * N * INNER


class Gated(nn.Module):
    """Three products; what is kept between the passes is up to a policy."""

    def __init__(self, policy=None):
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.more = {}
        if policy is not None:
            self.more["context_fn"] = partial(create_selective_checkpoint_contexts, policy)

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False, **self.more)

    def inner(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def keeping(*names):
    """Return a policy that keeps the results of some operations."""

    def policy(context, operation, *args, **kwargs):
        kept = operation.overloadpacket.__name__ in names
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def step(policy, compile=Region, numerics=False):
    """Return bytes kept between the passes, their peak in the second, and gradients."""
    (device,) = sim.configure(1, numerics=numerics)
    torch.manual_seed(0)
    model = Gated(policy).to(device)
    x = torch.randn(N, WIDTH, device=device, requires_grad=True)
    before = sim.memory_allocated()
    y = compile(model)(x)
    kept = sim.memory_allocated() - before - 4 * N * WIDTH
    sim.reset()
    sim.reset_peak_memory_stats()
    y.backward(torch.ones_like(y))
    return (
        kept,
        sim.max_memory_allocated(),
        [t.grad.tolist() for t in (x, *model.parameters()) if numerics],
    )


# Of the three products, none needs what the last makes: eager code keeps it all the same.
@pytest.mark.parametrize(
    ("policy", "eager", "compiled"),
    [
        (None, 0, 0),
        (keeping("mm"), 2 * HIDDEN + 4 * N * WIDTH, 2 * HIDDEN),
        (keeping("silu"), HIDDEN, HIDDEN),  # not computed again, though it is pointwise
        (keeping("mul"), HIDDEN, HIDDEN),
        (keeping("add"), 0, 0),  # the result
    ],
    ids=["none", "products", "activation", "product of both", "result"],
)
def test_what_the_policy_marks_is_kept_if_it_is_needed(policy, eager, compiled):
    assert step(policy, lambda model: model)[0] == eager
    assert step(policy)[0] == compiled


@pytest.mark.parametrize("policy", [None, keeping("mm")])
def test_what_is_done_again_is_fused_with_what_needs_it(policy):
    eager, compiled = (step(policy, compile)[1] for compile in (lambda model: model, Region))
    assert compiled < eager
    names = [span.name for span in spans(engine="compute") if span.name.startswith("triton")]
    assert names == ["triton_poi_fused_silu_mul_silu_backward", "triton_poi_fused_add"]


@pytest.mark.parametrize("policy", [None, keeping("mm"), keeping("silu")])
def test_values_are_those_of_eager_code(policy):
    eager, compiled = (step(policy, compile, True)[2] for compile in (lambda model: model, Region))
    assert eager == compiled
