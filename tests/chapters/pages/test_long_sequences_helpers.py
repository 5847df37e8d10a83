"""The helpers of the chapter on long sequences find mistakes, and time what they say."""

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from benchmarks.published.families.torchtitan import GPU
from d2lmini.pages.long_sequences import (
    attention_seconds,
    block_and_message,
    compare_attention,
    make_language,
    rotate,
    write_torchtitan_gpu,
)
from simgpu.hardware.presets import find_gpu

pytestmark = pytest.mark.process


def in_a_row(places, rank, ranks):
    return places.chunk(ranks)[rank]


def stripes(places, rank, ranks):
    return places[rank::ranks]


class Gather(torch.autograd.Function):
    """The tokens of all ranks; its backward pass is right if it sums over the ranks."""

    @staticmethod
    def forward(ctx, x, summed):
        ctx.summed = summed
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, 2)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone(memory_format=torch.contiguous_format)
        if ctx.summed:
            dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size(), 2)[dist.get_rank()], None


def gathered(q, k, v, summed=True):
    n, device = q.shape[2], q.device
    k, v = (Gather.apply(x, summed) for x in (k, v))
    queries = torch.arange(n, device=device)[:, None] + n * dist.get_rank()
    mask = queries >= torch.arange(k.shape[2], device=device)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v


@pytest.mark.parametrize("gradients", [False, True])
def test_right_attention_is_equal_to_that_of_one_process(gradients):
    assert compare_attention(gathered, in_a_row, nprocs=2, gradients=gradients) < 1e-12


def test_wrong_outputs_and_gradients_are_found():
    def forgets(q, k, v):
        return gathered(q, k, v, summed=False)

    assert compare_attention(gathered, stripes, nprocs=2) > 0.05
    assert compare_attention(forgets, in_a_row, nprocs=2) < 1e-12
    assert compare_attention(forgets, in_a_row, nprocs=2, gradients=True) > 0.05


def alone(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_twice_the_tokens_take_four_times_as_long():
    one, two = (attention_seconds(alone, n, nprocs=1) for n in (16384, 32768))
    assert 3.8 < two / one < 4.1
    assert 3 < attention_seconds(alone, 16384, 1, backward=True) / one < 5


def send_round(q, k, v):
    """Compute two blocks, and send keys and values round meanwhile."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    new = [torch.empty_like(x) for x in (k, v)]
    calls = [dist.P2POp(dist.isend, x, (rank + 1) % ranks) for x in (k, v)]
    calls += [dist.P2POp(dist.irecv, x, (rank - 1) % ranks) for x in new]
    works = dist.batch_isend_irecv(calls)
    out = alone(q, k, v)
    for work in works:
        work.wait()
    return out + F.scaled_dot_product_attention(q, *new)


def test_a_step_of_a_ring_is_the_second_block_and_its_message():
    hdr = {"nodes": 2, "network": "hdr"}
    block, message = block_and_message(send_round, 16384, 2, **hdr)
    twice = block_and_message(send_round, 32768, 2, **hdr)
    assert 3.8 < twice[0] / block < 4.1
    assert 1.9 < twice[1] / message < 2.1
    whole = attention_seconds(alone, 16384, 1)
    assert 1.8 < block / whole < 2.2  # without a mask


def test_rotated_products_depend_on_the_distance_of_positions():
    q, k = torch.randn(2, 1, 8, generator=torch.Generator().manual_seed(0))

    def product(i, j):
        i, j = torch.tensor([i]), torch.tensor([j])
        return (rotate(q, i) * rotate(k, j)).sum()

    assert torch.allclose(product(3, 1), product(9, 7), atol=1e-5)
    assert not torch.allclose(product(3, 1), product(3, 2), atol=1e-2)


def test_labels_are_the_next_tokens_up_to_the_padding():
    _, tokens, labels = make_language("cpu", length=16, padding=5)
    assert torch.equal(labels[:11], tokens[1:12])
    assert labels[11:].tolist() == [-100] * 5


def test_the_gpu_of_torchtitan_is_that_of_the_record():
    gpu = find_gpu(write_torchtitan_gpu())
    assert (gpu.memory, gpu.memory_bandwidth) == (GPU.memory, GPU.memory_bandwidth)
    assert gpu.flops == GPU.flops
