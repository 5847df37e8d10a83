"""Checks for finite numbers pass in runs that keep shapes only."""

import math

import pytest
import torch
from support.each import each

import simgpu as sim


def clip(_, x):
    """Return whether this does not raise."""
    return torch.nn.utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True) is not None


CHECKS = {
    "isnan": lambda loss, _: not torch.isnan(loss),
    "isfinite": lambda loss, _: torch.isfinite(loss),
    "isfinite of all": lambda _, x: torch.isfinite(x).all(),
    "isinf of any": lambda _, x: not torch.isinf(x).any(),
    "neither": lambda loss, _: not torch.logical_or(loss.isnan(), loss.isinf()),
    "itself": lambda loss, _: loss == loss,
    "not itself": lambda loss, _: not torch.ne(loss, loss),
    "infinity": lambda loss, _: loss != math.inf,
    "inverted": lambda _, x: (~torch.isnan(x)).all(),
    "clipping": clip,
}


@pytest.fixture
def tensors():
    (device,) = sim.configure(1, numerics=False)
    x = torch.randn(64, 64, device=device, requires_grad=True)
    loss = x.square().mean()
    loss.backward()
    return loss, x


@each(CHECKS)
def test_a_number_without_a_value_counts_as_finite(name, tensors):
    assert CHECKS[name](*tensors)


def test_what_is_not_known_or_is_overwritten_stays_so(tensors):
    _, x = tensors
    finite = torch.isfinite(x)
    assert finite._block.equal is True
    finite[0, 0] = False
    for truth in (finite, x == 1.0, x > 0, (x > 0) & torch.isfinite(x), torch.ones(0).any()):
        assert getattr(truth, "_block", finite._block).equal is None
