"""`nn.TransformerEncoder` with a padding mask gives what it gives on the CPU."""

import copy

import pytest
import torch
from torch import nn

import simgpu as sim

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of")
LENGTHS = (5, 2, 4)
AT_THE_END = torch.arange(5) >= torch.tensor(LENGTHS)[:, None]
KINDS = {"at the end": AT_THE_END, "in front": AT_THE_END.flip(1), "none": AT_THE_END & False}


def encoder(norm=True, **kwargs):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **kwargs)
    return nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8) if norm else None)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("mask", KINDS)
@pytest.mark.parametrize("norm", [False, True])
def test_the_output_is_that_of_the_cpu(mask, norm, training, grad):
    (device,) = sim.configure(1)
    net = encoder(norm, dropout=0.0).train(training)
    x, padded = torch.randn(3, 5, 8), KINDS[mask]
    with torch.set_grad_enabled(grad):
        expected = net(x, src_key_padding_mask=padded)
        other = copy.deepcopy(net).to(device)
        result = other(x.to(device), src_key_padding_mask=padded.to(device)).cpu()
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=2e-6)


def test_floating_point_masks_and_causal_ones():
    (device,) = sim.configure(1)
    net, x = encoder().eval(), torch.randn(3, 5, 8)
    weights = torch.zeros(3, 5).masked_fill(AT_THE_END, -torch.inf)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        expected = [net(x, src_key_padding_mask=weights), net(x, causal, weights)]
        net, x, weights, causal = (value.to(device) for value in (net, x, weights, causal))
        found = [net(x, src_key_padding_mask=weights).cpu(), net(x, causal, weights).cpu()]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-6)


def test_shapes_alone_take_as_long_as_values():
    def end(numerics):
        (device,) = sim.configure(1, numerics=numerics)
        net, x = encoder().to(device).eval(), torch.randn(3, 5, 8).to(device)
        with torch.no_grad():
            out = net(x, src_key_padding_mask=AT_THE_END.to(device))
        sim.synchronize()
        assert out.shape == x.shape
        return sim.now()

    assert end(True) == pytest.approx(end(False), rel=1e-9)


def test_on_the_cpu_nothing_changes():
    net, x = encoder().eval(), torch.randn(3, 5, 8)
    with torch.no_grad():
        before = net(x, src_key_padding_mask=AT_THE_END)
        sim.configure(1)
        assert torch.equal(net(x, src_key_padding_mask=AT_THE_END), before)
