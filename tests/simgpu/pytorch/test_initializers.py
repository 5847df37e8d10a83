"""Initialisers of `torch.nn.init` that draw numbers again until all are in a range."""

import pytest
import torch

import simgpu as sim


@pytest.mark.parametrize("numerics", [True, False])
def test_truncated_numbers_come_to_an_end(numerics):
    (device,) = sim.configure(1, numerics=numerics)
    x = torch.nn.init.trunc_normal_(torch.empty(4096, device=device), a=-1, b=1)
    assert "normal_" in {span.name.rstrip("_") + "_" for span in sim.trace()}
    assert not numerics or x.abs().max() <= 1
    assert torch.nn.init.trunc_normal_(torch.empty(64), a=-1, b=1).abs().max() <= 1
