"""The programs of the compiled pairs compute what their authors' compute, on the CPU."""

import pytest
import torch
import torch.nn.functional as F

from benchmarks.compiled.programs import course, gpt2, llama, titan


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


def test_both_attentions_of_gpt2_are_the_same():
    single = gpt2.Attention(fused=False, dropout=0.0)
    fused = gpt2.Attention(fused=True, dropout=0.0)
    torch.nn.init.zeros_(single.qkv.bias)
    fused.load_state_dict(single.state_dict(), strict=False)
    x = torch.randn(1, gpt2.SEQ, gpt2.WIDTH)
    torch.testing.assert_close(single(x), fused(x), rtol=1e-3, atol=1e-4)


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
