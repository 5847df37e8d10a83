"""The programs of the compiled pairs compute what their authors' compute, on the CPU."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from benchmarks.compiled.programs import book, course, finetune, gpt2, llama, titan


def test_three_rotations_are_the_same():
    x = torch.randn(2, 6, 3, 8)
    found = [one.rotate(x, one.table(6, 8)) for one in (llama.Pairs, llama.Complex, llama.Matrices)]
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])
    torch.testing.assert_close(found[0].norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(found[0][:, 0], x[:, 0])  # the first place is not rotated


def test_the_course_s_rotation_is_of_neighbours_too():
    x = torch.randn(2, 3, 6, 8)
    rates = 10_000.0 ** -(torch.arange(0, 8, 2) / 8)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    angles = torch.outer(torch.arange(6), rates)
    wanted = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    torch.testing.assert_close(course.Rotation(6, 8)(x, torch.arange(6)), wanted)


def test_the_course_s_softmax_and_loss_are_those_of_pytorch():
    logits, targets = torch.randn(2, 5, 7), torch.randint(0, 7, (2, 5))
    torch.testing.assert_close(course.softmax(logits), logits.softmax(-1))
    wanted = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(course.loss_of(logits, targets), wanted)
    torch.testing.assert_close(gpt2.loss_of(logits, targets), wanted)


SIZES = gpt2.Sizes(layers=1, width=32, heads=2, seq=8, vocabulary=11)


def test_both_attentions_of_gpt2_are_the_same():
    single = gpt2.Attention(SIZES, gpt2.Single(SIZES))
    fused = gpt2.Attention(SIZES, gpt2.Fused())
    fused.load_state_dict(single.state_dict(), strict=False)
    x = torch.randn(1, SIZES.seq, SIZES.width)
    torch.testing.assert_close(single(x), fused(x), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kept", [True, False])
def test_the_book_s_own_layers_are_those_of_pytorch(kept):
    x = torch.randn(2, SIZES.seq, SIZES.width)
    torch.testing.assert_close(book.Norm(32)(x), F.layer_norm(x, (32,)))
    torch.testing.assert_close(book.gelu(x), gpt2.tanh_gelu(x), rtol=1e-4, atol=1e-5)
    single = book.SingleAttention(SIZES, kept).eval()
    fused = gpt2.Attention(SIZES, gpt2.Fused(), bias=False)
    with torch.no_grad():
        fused.qkv.weight.copy_(torch.cat([single.q.weight, single.k.weight, single.v.weight]))
        fused.out.load_state_dict(single.out.state_dict())
    torch.testing.assert_close(single(x), fused(x), rtol=1e-3, atol=1e-4)


def test_a_loss_in_parts_is_the_loss():
    model = llama.Llama(llama.Shape(32, 48, 1, 4, 2, 11), 16, llama.Pairs)
    tokens, targets = torch.randint(0, 11, (2, 2, 16)).unbind(0)
    whole, parts = (
        finetune.make_loss(model, SimpleNamespace(chunked=chunked, compile=False))
        for chunked in (False, True)
    )
    hidden = model.hidden(tokens)
    torch.testing.assert_close(parts(hidden, targets), whole(hidden, targets))


@pytest.mark.parametrize("rotation", [llama.Pairs, llama.Complex, llama.Matrices])
def test_a_llama_does_not_see_later_tokens(rotation):
    shape = llama.Shape(32, 48, 2, 4, 2, 11)
    model = llama.Llama(shape, 6, rotation)
    tokens = torch.randint(0, 11, (1, 6))
    changed = tokens.clone()
    changed[0, -1] = (tokens[0, -1] + 1) % 11
    a, b = model(tokens), model(changed)
    assert a.shape == (1, 6, 11)
    torch.testing.assert_close(a[:, :-1], b[:, :-1])
    assert not torch.allclose(a[:, -1], b[:, -1])


def test_every_second_product_is_kept():
    policy = titan.Policy()

    class Context:
        is_recompute = False

    product, other = torch.ops.aten.mm.default, torch.ops.aten.add.Tensor
    kept = [policy(Context, op).name for op in (product, other, product, product)]
    assert kept == ["MUST_SAVE", "PREFER_RECOMPUTE", "PREFER_RECOMPUTE", "MUST_SAVE"]
