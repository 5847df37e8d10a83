"""Collectives and messages on simulated GPUs, against their definitions."""

import os
import random
import sys

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

import simgpu as sim
from simgpu.timeline import Timeline


def run(program, k, *args, **kwargs):
    kwargs = {"gpu": "a100", "link": "nvlink3", **kwargs}
    return sim.spawn(_with_group, (program, *args), nprocs=k, **kwargs)


def _with_group(rank, program, *args):
    dist.init_process_group()
    try:
        return program(rank, dist.get_world_size(), torch.accelerator.current_accelerator(), *args)
    finally:
        dist.destroy_process_group()


def numbers(rank, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(rank))


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("is_async", [False, True])
def test_reductions(k, is_async):
    kinds = {
        "SUM": lambda x: x.sum(0), "AVG": lambda x: x.mean(0), "MAX": lambda x: x.amax(0),
        "MIN": lambda x: x.amin(0), "PRODUCT": lambda x: x.prod(0),
    }  # fmt: skip

    def program(rank, k, device, name):
        x = numbers(rank, 3, 4).to(device)
        work = dist.all_reduce(x, op=getattr(dist.ReduceOp, name), async_op=is_async)
        if is_async:
            work.wait()
        root = numbers(rank, 3, 4).to(device)
        dist.reduce(root, k - 1, op=getattr(dist.ReduceOp, name))
        part = torch.empty(2, device=device)
        dist.reduce_scatter_tensor(
            part, numbers(rank, 2 * k).to(device), op=getattr(dist.ReduceOp, name)
        )
        many = torch.empty(2, device=device)
        dist.reduce_scatter(
            many, list(numbers(rank, k, 2).to(device)), op=getattr(dist.ReduceOp, name)
        )
        return x.cpu(), root.cpu(), part.cpu(), many.cpu()

    for name, reference in kinds.items():
        out = run(program, k, name)
        whole = reference(torch.stack([numbers(r, 3, 4) for r in range(k)]))
        parts = reference(torch.stack([numbers(r, 2 * k) for r in range(k)])).view(k, 2)
        for rank, (x, root, part, many) in enumerate(out):
            torch.testing.assert_close(x, whole)
            torch.testing.assert_close(root, whole if rank == k - 1 else numbers(rank, 3, 4))
            torch.testing.assert_close(part, parts[rank])
            torch.testing.assert_close(many, parts[rank])


def test_bits_of_host_tensors():
    def program(rank, k, device):
        out = []
        for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
            x = torch.tensor([12 + rank, 7])  # NCCL has no such reductions, but gloo
            dist.all_reduce(x, op=op)
            out.append(x.tolist())
        return out

    assert run(program, 3)[1] == [[12 & 13 & 14, 7], [12 | 13 | 14, 7], [12 ^ 13 ^ 14, 7]]


def test_averages_of_integers_are_integers():
    def program(rank, k, device):
        x = torch.tensor([2 + rank, 2**24 + 1], device=device)  # the second is no float32
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
        return x.tolist()

    assert run(program, 2) == [[(2 + 3) // 2, 2**24 + 1]] * 2


@pytest.mark.parametrize("k", [2, 3])
def test_moves(k):
    def program(rank, k, device):
        own = numbers(rank, 2).to(device)
        whole = torch.empty(2 * k, device=device)
        dist.all_gather_into_tensor(whole, own)
        lists = [torch.empty(2, device=device) for _ in range(k)]
        dist.all_gather(lists, own)
        from_root = own.clone()
        dist.broadcast(from_root, src=1)
        gathered = [torch.empty(2, device=device) for _ in range(k)] if rank == 1 else None
        dist.gather(own, gathered, dst=1)
        part = torch.empty(1, device=device)
        dist.scatter(part, list(numbers(9, k, 1).to(device)) if rank == 0 else None, src=0)
        swapped = torch.empty(k, device=device)
        dist.all_to_all_single(swapped, numbers(rank, k).to(device))
        ragged = torch.empty(k * (rank + 1), device=device)
        sizes = list(range(1, k + 1))
        dist.all_to_all_single(ragged, numbers(rank, sum(sizes)).to(device), [rank + 1] * k, sizes)
        return [
            whole.cpu(), torch.cat(lists).cpu(), from_root.cpu(),
            torch.cat(gathered).cpu() if gathered else None, part.cpu(), swapped.cpu(),
            ragged.cpu(),
        ]  # fmt: skip

    owns = torch.cat([numbers(r, 2) for r in range(k)])
    sizes = list(range(1, k + 1))
    for rank, (whole, many, root, gathered, part, swapped, ragged) in enumerate(run(program, k)):
        assert torch.equal(whole, owns)
        assert torch.equal(many, owns)
        assert torch.equal(root, numbers(1, 2))
        assert gathered is None or torch.equal(gathered, owns)
        assert (gathered is None) == (rank != 1)
        assert torch.equal(part, numbers(9, k, 1)[rank])
        assert torch.equal(swapped, torch.stack([numbers(r, k)[rank] for r in range(k)]))
        parts = [numbers(r, sum(sizes)).split(sizes)[rank] for r in range(k)]
        assert torch.equal(ragged, torch.cat(parts))


def test_messages_in_both_directions_and_in_a_ring():
    def program(rank, k, device):
        got = torch.empty(2, device=device)
        if rank == 0:
            dist.send(numbers(0, 2).to(device), 1)
        elif rank == 1:
            dist.recv(got, 0)
        ring = torch.empty(2, device=device)
        own = numbers(rank, 2).to(device)
        ops = [
            dist.P2POp(dist.isend, own, (rank + 1) % k),
            dist.P2POp(dist.irecv, ring, (rank - 1) % k),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        back = torch.empty(2, device=device)
        works = [dist.isend(own, (rank - 1) % k), dist.irecv(back, (rank + 1) % k)]
        for work in works:
            work.wait()
        return got.cpu(), ring.cpu(), back.cpu()

    out = run(program, 3)
    assert torch.equal(out[1][0], numbers(0, 2))
    for rank, (_, ring, back) in enumerate(out):
        assert torch.equal(ring, numbers((rank - 1) % 3, 2))
        assert torch.equal(back, numbers((rank + 1) % 3, 2))


@pytest.mark.slow
def test_objects_and_host_tensors():
    def program(rank, k, device):
        everything = [None] * k
        dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank})
        one = [f"from {rank}"]
        dist.broadcast_object_list(one, src=1)
        gathered = [None] * k if rank == 0 else None
        dist.gather_object(rank**2, gathered, dst=0)
        given = [None]
        dist.scatter_object_list(given, [f"for {r}" for r in range(k)] if rank == 0 else None)
        host = torch.tensor([rank + 1.0])
        dist.all_reduce(host)
        return everything, one, gathered, given, host.item()

    for rank, (everything, one, gathered, given, host) in enumerate(run(program, 3)):
        assert everything == [{"rank": r, "text": "x" * r} for r in range(3)]
        assert (one, given, host) == (["from 1"], [f"for {rank}"], 6.0)
        assert gathered == ([0, 1, 4] if rank == 0 else None)


def test_groups_that_overlap_and_groups_that_share_no_rank():
    def program(rank, k, device):
        groups = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3], [1, 2, 3], [3, 0])]
        sums = []
        for group in groups:
            x = torch.tensor([10.0**rank], device=device)
            if dist.get_rank(group) >= 0:
                dist.all_reduce(x, group=group)
            sums.append(x.item())
        return sums

    assert run(program, 4) == [
        [11.0, 1.0, 1.0, 1001.0], [11.0, 10.0, 1110.0, 10.0],
        [100.0, 1100.0, 1110.0, 100.0], [1000.0, 1100.0, 1110.0, 1001.0],
    ]  # fmt: skip


def test_coalesced():
    def program(rank, k, device):
        tensors = [torch.full((n,), float(rank), device=device) for n in (1, 3)]
        with dist._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        return torch.cat(tensors).tolist()

    assert run(program, 3) == [[3.0] * 4] * 3


def test_functional_collectives():
    def program(rank, k, device):
        x = numbers(rank, 4).to(device)
        world = dist.group.WORLD
        results = (
            functional.all_reduce(x, "sum", world),
            functional.all_gather_tensor(x, 0, world),
            functional.reduce_scatter_tensor(x, "avg", 0, world),
            functional.all_to_all_single(x, None, None, world),
            functional.broadcast(x, 1, world),
        )
        return [(result + 0).cpu() for result in results]

    x = torch.stack([numbers(r, 4) for r in range(2)])
    for rank, (total, whole, part, swapped, root) in enumerate(run(program, 2)):
        torch.testing.assert_close(total, x.sum(0))
        assert torch.equal(whole, x.flatten())
        torch.testing.assert_close(part, x.mean(0).chunk(2)[rank])
        assert torch.equal(swapped, torch.cat([x[0].chunk(2)[rank], x[1].chunk(2)[rank]]))
        assert torch.equal(root, x[1])


@pytest.mark.slow
def test_every_rank_has_its_clock_and_a_product_hides_an_asynchronous_collective():
    def program(rank, k, device):
        x, big = torch.ones(2000, 2000, device=device), torch.ones(8_000_000, device=device)
        dist.barrier()
        times = []
        for is_async in (True, False):
            sim.synchronize()
            start = sim.now()
            work = dist.all_reduce(big, async_op=is_async)
            x @ x
            if is_async:
                work.wait()
            sim.synchronize()
            times.append(sim.now() - start)
        if rank == 1:
            with sim.host_ops():
                torch.ones(1000) + 1
        return times, sim.now()

    (((hidden, open_), first), (_, second)) = run(program, 2, gpu="v100")
    trace = sim.trace()
    assert {s.device for s in trace} == {
        "rank 0 host", "rank 0 sim:0", "rank 1 host", "rank 1 sim:1",
    }  # fmt: skip
    product = min(s.duration for s in trace if (s.name, s.engine) == ("mm", "compute"))
    comm = max(s.duration for s in trace if s.engine == "comm")
    assert open_ > product + comm > hidden > max(product, comm)
    assert first < second == sim.now()
    timeline = Timeline(trace)
    assert {("rank 0 sim:0", "comm"), ("rank 1 host", "launch")} <= set(timeline.lanes())
    assert timeline.simulated
    assert "rank 1 sim:1" in timeline.to_svg()


def test_the_process_of_the_caller_is_unchanged():
    (device,) = sim.configure(1, gpu="v100")
    x = torch.ones(2, device=device)
    torch.manual_seed(5)
    before = torch.get_rng_state(), random.getstate(), dict(os.environ), sys.excepthook

    def program(rank, k, device):
        torch.manual_seed(rank)
        random.seed(rank)
        os.environ["OTHER"] = "1"
        y = torch.rand(2, device=device)
        dist.barrier()
        return {**os.environ}, torch.rand(1).item(), random.random(), y.tolist()

    out = run(program, 2)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), dict(os.environ), sys.excepthook) == before[1:]
    assert not dist.is_initialized()
    assert (x + x).tolist() == [2.0, 2.0]
    assert sim.device_count() == 1
    assert torch.rand(2, device=device).tolist() == _drawn_after_seed(5)
    for rank, (env, *draws) in enumerate(out):
        assert env["RANK"] == env["LOCAL_RANK"] == str(rank)
        assert env["WORLD_SIZE"] == env["LOCAL_WORLD_SIZE"] == "2"
        torch.manual_seed(rank)
        random.seed(rank)
        assert draws[:2] == [torch.rand(1).item(), random.random()]
    assert out[0][3] != out[1][3]


def _drawn_after_seed(seed):
    (device,) = sim.configure(1)
    torch.manual_seed(seed)
    return torch.rand(2, device=device).tolist()


def test_the_mean_of_integers_is_cut_off_as_by_nccl():
    def program(rank):
        dist.init_process_group()
        x = torch.tensor([-1, 3, -5], device="sim") * (1 + rank)
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
        return x.tolist()

    assert sim.spawn(program, nprocs=2) == [[-1, 4, -7]] * 2


@pytest.mark.parametrize("ranks", [None, [0, 1]])  # all of them, and some in place of others
def test_an_uneven_exchange_takes_as_long_whichever_rank_sends_more(ranks):
    def exchange(*sizes):
        """Return the seconds and the bytes of an all-to-all to whose ranks these sizes belong."""

        def program(rank):
            dist.init_process_group()
            own = sizes[0] if rank == 0 else sizes[1]
            each = [sizes[0]] + [sizes[1]] * (k - 1)
            filled = torch.empty(sum(each), device="sim")
            dist.all_to_all_single(filled, torch.ones(k * own, device="sim"), each, [own] * k)

        k = 2 if ranks is None else 4
        sim.spawn(program, nprocs=k, gpu="a100", link="nvlink3", numerics=False, ranks=ranks)
        (span, *others) = (span for span in sim.trace() if span.engine == "comm")
        assert {other.bytes for other in others} == {span.bytes}
        return span.duration, span.bytes

    small, large = 2**16, 2**26
    one, other, both = exchange(small, large), exchange(large, small), exchange(small, small)
    if ranks is None:
        assert one == pytest.approx(other)
    assert min(one[0], other[0]) > 10 * both[0]
    assert min(one[1], other[1]) > 100 * both[1]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_what_a_rank_changes_afterwards_changes_nothing_of_others(device, is_async):
    """A received tensor is a copy, also of the rank's own part."""

    def program(rank):
        dist.init_process_group()
        k, options = 3, {"async_op": is_async}
        given = torch.arange(k, device=device) + 10.0 * rank
        scattered, swapped = (torch.zeros(n, device=device) for n in (1, k))
        parts = [torch.zeros(1, device=device) for _ in range(k)]
        works = [
            dist.scatter(scattered, list(given.split(1)) if rank == 1 else None, 1, **options),
            dist.all_to_all_single(swapped, given, **options),
        ]
        if device == "sim":  # gloo has no lists
            works.append(dist.all_to_all(parts, list(given.split(1)), **options))
        for work in works if is_async else ():
            work.wait()
        dist.barrier()
        given.fill_(-1)
        dist.barrier()
        return [t.tolist() for t in (scattered, swapped, torch.cat(parts))]

    for rank, (scattered, swapped, parts) in enumerate(sim.spawn(program, nprocs=3)):
        expected = [float(rank), 10.0 + rank, 20.0 + rank]
        assert (scattered, swapped) == ([10.0 + rank], expected)
        assert parts == (expected if device == "sim" else [0.0] * 3)


def test_host_tensors_in_place_are_read_before_they_are_written():
    """NCCL may not work in place but at a rank's own part; on the host all of it is sent first."""

    def program(rank):
        dist.init_process_group()
        x, y, z, w = (torch.tensor([10.0 * rank, 10.0 * rank + 1]) for _ in range(4))
        dist.all_to_all_single(x, x)
        dist.scatter(y[1:], [y[:1], y[1:]] if rank == 0 else None)
        dist.reduce_scatter(z[1:], [z[:1], z[1:]])
        dist.gather(w[:1], [w[:1], w[1:]] if rank == 1 else None, 1)
        return [t.tolist() for t in (x, y, z, w)]

    first, second = sim.spawn(program, nprocs=2)
    assert first == [[0.0, 10.0], [0.0, 0.0], [0.0, 10.0], [0.0, 1.0]]
    assert second == [[1.0, 11.0], [10.0, 1.0], [10.0, 12.0], [0.0, 10.0]]
