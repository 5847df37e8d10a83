"""The language model against PyTorch's own layers, and the text that it reads."""

import pytest
import torch
from torch import nn

from d2lmini import LanguageModel, gpus, load_text, text_batch, to_text, train_networks
from d2lmini.language_model import Block


def test_a_block_is_pytorchs_transformer_layer():
    torch.manual_seed(0)
    block, x = Block(width=16, heads=4).double(), torch.randn(2, 5, 16).double()
    layer = nn.TransformerEncoderLayer(
        16, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).double()
    names = {"self_attn.in_proj_": "attention.qkv.", "self_attn.out_proj.": "attention.out."}
    names |= {"linear1.": "up.", "linear2.": "down."}
    state = block.state_dict()
    for name, own in names.items():
        for kind in ("weight", "bias"):
            layer.get_parameter(name + kind).data = state[own + kind]
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    assert torch.allclose(block(x), layer(x, src_mask=mask), rtol=0, atol=1e-12)


def test_no_token_sees_a_later_one():
    torch.manual_seed(0)
    net, X = LanguageModel(), torch.randint(96, (1, 64))
    changed = X.clone()
    changed[0, 40] = (X[0, 40] + 1) % 96
    before, after = net(X), net(changed)
    assert torch.allclose(before[0, :40], after[0, :40], rtol=0, atol=1e-6)
    assert (before[0, 40:] - after[0, 40:]).abs().amax(-1).min() > 1e-5


def test_heads_divide_the_width():
    with pytest.raises(ValueError, match="width 10 cannot be divided by 4 heads"):
        LanguageModel(width=10)


def test_the_text_is_printable_and_none_of_it_is_lost():
    text = load_text()
    assert text.min() >= 0
    assert text.max() == 95
    lines = to_text(text).split("\n")
    assert len(lines) == 403
    assert all(line.isprintable() and len(line) >= 60 for line in lines)


def test_pieces_are_followed_by_the_next_token_and_reach_both_ends():
    text = torch.arange(10)
    X, y = text_batch(text, size=200, length=4)
    assert torch.equal(y, X + 1)
    assert X.min() == 0
    assert y.max() == 9
    assert torch.equal(X, text_batch(text, 200, 4)[0])
    assert not torch.equal(X, text_batch(text, 200, 4, seed=1)[0])
    with pytest.raises(ValueError, match="a text of 10 tokens has no pieces of 11"):
        text_batch(text, 1, 10)


@pytest.mark.parametrize("k", [1, 3])
def test_an_update_is_that_of_pytorchs_optimizer(k):
    devices = gpus(k, gpu="a100", quiet=True)
    X, y = text_batch(load_text(), size=5, length=8)
    nets = []
    for device in ("cpu", *devices):
        torch.manual_seed(1)
        nets.append(LanguageModel(width=16, layers=1, length=8).to(device))
    right, *nets = nets
    losses = train_networks(nets, X, y, devices, lr=0.3)
    loss = nn.functional.cross_entropy(right(X).flatten(0, 1), y.flatten())
    loss.backward()
    torch.optim.SGD(right.parameters(), lr=0.3).step()
    assert sum(part.item() for part in losses) / y.numel() == pytest.approx(loss.item(), rel=1e-5)
    for net in nets:
        for got, wanted in zip(net.parameters(), right.parameters(), strict=True):
            assert torch.allclose(got.cpu(), wanted, rtol=0, atol=1e-5)
