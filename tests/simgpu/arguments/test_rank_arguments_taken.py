"""Unusual arguments that NCCL takes, against their definitions; messages as NCCL matches them."""

import sys

import pytest
import torch
import torch.distributed as dist
from support.group_calls import message, ones, run, with_channels_last
from torch.distributed import ReduceOp


def test_collectives_count_elements():
    def program(rank, device):
        x = torch.arange(6.0, device=device).view((2, 3) if rank else (3, 2))
        dist.all_reduce(x)
        y = torch.arange(6.0, device=device).view((2, 3) if rank else (3, 2)) * (rank + 1)
        dist.reduce(y, 1, op=ReduceOp.MAX)
        row = torch.arange(4.0, device=device).view(1, 4) + 10 * rank
        out = torch.empty(4, 1, device=device)
        dist.all_to_all_single(out, row)
        return x.flatten().tolist(), y.flatten().tolist(), out.flatten().tolist()

    first, second = run(program)
    assert first[0] == second[0] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert second[1] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert first[2] == [0.0, 1.0, 10.0, 11.0]
    assert second[2] == [2.0, 3.0, 12.0, 13.0]


def test_channels_last_on_all_ranks():
    def program(rank, device):
        x = with_channels_last(device, start=rank)
        whole = with_channels_last(device, 4)
        many = [torch.empty_like(x) for _ in range(2)]
        part, swapped = torch.empty_like(x), torch.empty_like(x)
        dist.all_gather_into_tensor(whole, x)
        dist.all_gather(many, x)
        dist.reduce_scatter_tensor(part, whole)
        dist.all_to_all_single(swapped, x)
        dist.all_reduce(x)
        assert not x.is_contiguous()
        return [t.cpu().contiguous() for t in (whole, torch.cat(many), part, swapped, x)]

    each = [torch.arange(96.0).view(2, 3, 4, 4) + rank for rank in range(2)]
    both = torch.cat(each)
    for rank, (whole, many, part, swapped, total) in enumerate(run(program)):
        assert torch.equal(whole, both)
        assert torch.equal(many, both)
        assert torch.equal(part, 2 * each[rank])
        assert torch.equal(swapped, torch.stack([x[rank] for x in each]))
        assert torch.equal(total, sum(each))


def test_in_place_where_nccl_supports_it():
    def program(rank, device):
        own = slice(2 * rank, 2 * rank + 2)
        x = torch.arange(4.0, device=device) + 10 * rank
        y, z = x.clone(), x.clone().view(2, 2)
        dist.all_gather_into_tensor(x, x[own])
        dist.reduce_scatter_tensor(y[own], y)
        # PyTorch gathers lists in a tensor of its own, so that the input may be any slot.
        dist.all_gather([*z], z[1 - rank])
        columns = torch.zeros(2, 2, device=device)
        dist.all_gather([*columns.t()], torch.tensor([1.0, 2.0], device=device) + rank)
        return x.tolist(), y[own].tolist(), z.flatten().tolist(), columns.tolist()

    for rank, (x, y, z, columns) in enumerate(run(program)):
        assert x == [0.0, 1.0, 12.0, 13.0]
        assert y == [[10.0, 12.0], [14.0, 16.0]][rank]
        assert z == [2.0, 3.0, 10.0, 11.0]
        assert columns == [[1.0, 2.0], [2.0, 3.0]]


def test_uneven_lists_and_empty_tensors():
    def program(rank, device):
        many = [ones(device, 1), ones(device, 2)]
        dist.all_gather(many, ones(device, 1 + rank) + rank)
        part = ones(device, 1 + rank)
        dist.reduce_scatter(part, [ones(device, 1), ones(device, 2)])
        nothing = ones(device, 0, 3)
        dist.all_reduce(nothing)
        dist.broadcast(nothing, 0)
        dist.all_to_all_single(ones(device, 0, 3), nothing)
        dist.all_gather_into_tensor(ones(device, 0, 3), nothing)
        dist.reduce_scatter_tensor(ones(device, 0, 3), nothing)
        dist.send(nothing, 1) if rank == 0 else dist.recv(nothing, 0)
        return [t.tolist() for t in many], part.tolist()

    for rank, (many, part) in enumerate(run(program)):
        assert many == [[1.0], [2.0, 2.0]]
        assert part == [2.0] * (1 + rank)


def test_averages_of_negative_integers_are_truncated():
    # NCCL divides the sum's absolute value (its ``FuncSumPostDiv``).
    def program(rank, device):
        x = torch.tensor([-1 - rank, 2 + rank, -4 * rank], device=device)
        dist.all_reduce(x, op=ReduceOp.AVG)
        return x.tolist()

    assert run(program) == [[-1, 2, -2]] * 2


def test_sums_of_bools_and_of_float8():
    def program(rank, device):
        flags = torch.tensor([rank == 0, False], device=device)
        dist.all_reduce(flags)
        eighths = torch.tensor([0.25, 1.5], device=device).to(torch.float8_e4m3fn)
        dist.all_reduce(eighths)
        pairs = torch.tensor([1 + 2j], device=device)
        dist.all_reduce(pairs, op=ReduceOp.AVG)
        return flags.tolist(), eighths.float().tolist(), pairs.tolist()

    assert run(program, gpu="h100") == [([True, False], [0.5, 3.0], [1 + 2j])] * 2


def test_tags_that_disagree_with_the_order():
    lines = {}

    def program(rank, device, on_host=False):
        a, b = (torch.zeros(1) if on_host else torch.zeros(1, device=device) for _ in range(2))
        if rank == 0:
            lines[0] = sys._getframe().f_lineno + 1
            works = [dist.isend(a + 1, 1, tag=1), dist.isend(b + 2, 1, tag=2)]
        else:
            lines[1] = sys._getframe().f_lineno + 1
            works = [dist.irecv(a, 0, tag=2), dist.irecv(b, 0, tag=1)]
        for work in works:
            work.wait()
        return a.item(), b.item()

    text = message(program)
    place = "test_rank_arguments_taken.py"
    assert f"a message of 1 float32 with tag 2 ({place}:{lines[1]})" in text
    assert f"a message of 1 float32 with tag 1 ({place}:{lines[0]})" in text
    assert "in the order of the calls (NCCL ignores tags)" in text
    assert run(lambda r, d: program(r, d, on_host=True))[1] == (2.0, 1.0), "gloo matches tags"


def test_messages_of_transposed_tensors_need_one_format():
    def program(rank, device, as_sent):
        x = torch.arange(6.0, device=device).view(2, 3).t() * (1 - rank)
        if rank == 0:
            dist.send(x, 1)
        else:
            dist.recv(x if as_sent else (x := x.contiguous()), 0)
        return x.tolist()

    assert run(lambda r, d: program(r, d, True))[1] == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    text = message(lambda r, d: program(r, d, False))
    assert "a message of 6 float32 with strides (1, 3)" in text


def batch(rank, device, peers, sizes=(3, 3)):
    out, got = ones(device, sizes[0]) * (rank + 1), torch.zeros(sizes[1], device=device)
    ops = [dist.P2POp(dist.isend, out, peers[0]), dist.P2POp(dist.irecv, got, peers[1])]
    for work in dist.batch_isend_irecv(ops if peers[1] is not None else ops[:1]):
        work.wait()
    return got.tolist()


@pytest.mark.slow
def test_messages_to_oneself():
    assert run(lambda r, d: batch(r, d, (r, r))) == [[1.0] * 3, [2.0] * 3]
    # A ring of one rank, as pipelines and ring attention have on a single GPU.
    assert run(lambda r, d: batch(r, d, (0, 0)), k=1) == [[1.0] * 3]
    assert "a message to itself of 3 float32" in message(lambda r, d: batch(r, d, (r, r), (3, 4)))
    text = message(lambda r, d: dist.isend(ones(d, 3), r))
    assert "rank 0 sends to itself (test_rank_arguments_taken.py:" in text
    assert "hangs outside a batch_isend_irecv" in text

    def half(rank, device):
        dist.batch_isend_irecv([dist.P2POp(dist.isend, ones(device, 3), rank)])

    assert "rank 0 itself never made the matching call" in message(half)
