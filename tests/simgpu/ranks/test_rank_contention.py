"""Kernels that run during collectives: slower by what these take of the GPU, and no more."""

import dataclasses
import random

import pytest
import torch
import torch.distributed as dist

import simgpu as sim
from simgpu.clock.contention import MOST, Contention
from simgpu.clock.engine import Engine
from simgpu.hardware import find_gpu
from simgpu.network import find_cluster
from simgpu.network.collective_costs import cost
from simgpu.ranks.communication import links

A100 = find_gpu("a100")


def run(program, k=2, gpu="a100", **kwargs):
    def ready(rank):
        dist.init_process_group()
        return program(rank, torch.accelerator.current_accelerator())

    return sim.spawn(ready, nprocs=k, gpu=gpu, numerics=False, **kwargs)


def kernels(name, rank=0):
    """Return the durations of the kernels of one name, in issue order."""
    device = f"rank {rank} sim:{rank}"
    return [s.duration for s in sim.trace() if s.name == name and s.device == device]


def collectives(rank=0):
    return [s for s in sim.trace() if s.engine == "comm" and s.device == f"rank {rank} sim:{rank}"]


def product_beside_a_sum(rank, device, size=2**30, n=4096, products=1):
    """The same products alone, and beside an all_reduce that is longer."""
    big = torch.empty(size, dtype=torch.float16, device=device)
    x = torch.empty(n, n, dtype=torch.float16, device=device)
    x @ x
    torch.accelerator.synchronize()
    work = dist.all_reduce(big, async_op=True)
    for _ in range(products):
        x @ x
    work.wait()
    torch.accelerator.synchronize()
    x @ x


def shares(num_bytes, k=2, gpu=A100, system="dgx-a100"):
    found = cost("all_reduce", num_bytes, range(k), find_cluster(system))
    return found.sm_share(gpu), found.memory_share(gpu)


def test_a_product_beside_a_collective_has_the_multiprocessors_that_are_left():
    run(product_beside_a_sum)
    before, beside, after = kernels("mm")
    taken, _ = shares(2**31)
    assert taken == pytest.approx(24 / 108)  # NCCL's channels on this board
    work = before - A100.kernel_overhead
    assert before == after
    assert beside == pytest.approx(A100.kernel_overhead + work / (1 - taken), rel=1e-9)


def test_a_kernel_that_moves_bytes_has_the_bandwidth_that_is_left():
    def program(rank, device):
        big = torch.empty(2**30, dtype=torch.float16, device=device)
        x = torch.empty(2**26, device=device)
        work = dist.all_reduce(big, async_op=True)
        x + x
        work.wait()
        torch.accelerator.synchronize()
        x + x

    run(program)
    beside, alone = kernels("add")
    _, taken = shares(2**31)
    # Ring of two: each byte is read to be sent and written on arrival in both halves, and the sum
    # reads its own half: 2.5 bytes of memory traffic for one of the buffer.
    seconds = collectives()[0].duration
    by_hand = 2.5 * 2**31 / (seconds * A100.memory_bandwidth * A100.memory_efficiency)
    assert taken == pytest.approx(by_hand)
    overhead = A100.kernel_overhead
    assert beside == pytest.approx(overhead + (alone - overhead) / (1 - taken), rel=1e-9)


def test_the_collective_is_not_slower_for_it():
    run(product_beside_a_sum, k=2)
    (busy,) = collectives()
    run(lambda rank, device: product_beside_a_sum(rank, device, products=0))
    (idle,) = collectives()
    assert busy.duration == pytest.approx(idle.duration, rel=1e-12)


def test_a_product_that_outlasts_the_collective_is_slower_for_that_long():
    """The rest of its work runs at full speed after the collective ends."""
    run(lambda rank, device: product_beside_a_sum(rank, device, size=2**24, n=8192))
    alone, beside, _ = kernels("mm")
    comm = collectives()[0]
    span = [s for s in sim.trace() if s.name == "mm" and s.device == "rank 0 sim:0"][1]
    together = comm.end - span.start
    assert 0 < together < alone
    slow = A100.kernel_overhead + (alone - A100.kernel_overhead) / (1 - shares(2**25)[0])
    assert beside == pytest.approx(together + (1 - together / slow) * alone, rel=1e-9)


def test_what_runs_after_the_collective_in_the_same_stream_is_not_slower():
    def program(rank, device):
        big = torch.empty(2**24, device=device)
        x = torch.empty(4096, 4096, device=device)
        x @ x
        dist.all_reduce(big)
        x @ x

    run(program)
    before, after = kernels("mm")
    assert before == after


def test_a_rank_that_waits_for_another_has_fewer_multiprocessors_meanwhile():
    """NCCL's kernel occupies them from its own start, not from that of the others."""

    def program(rank, device):
        big = torch.empty(2**20, device=device)
        x = torch.empty(4096, 4096, device=device)
        if rank == 1:
            for _ in range(20):
                x @ x
        work = dist.all_reduce(big, async_op=True)
        x @ x
        work.wait()
        torch.accelerator.synchronize()
        x @ x

    run(program)
    waiting, alone = kernels("mm")
    assert collectives()[0].start > 10 * alone
    assert waiting > 1.2 * alone


def test_without_a_multiprocessor_count_collectives_take_only_bandwidth():
    unknown = dataclasses.replace(A100, multiprocessors=None, matmul_efficiency=None)
    run(product_beside_a_sum, gpu=unknown, link="nvlink3")
    alone, beside, _ = kernels("mm")
    assert beside == pytest.approx(alone, rel=1e-12)


def test_a_rank_runs_kernels_although_its_collective_cannot_start_yet():
    """Rank 1 calls the all_reduce only after a message that rank 0 sends after a kernel."""

    def program(rank, device):
        x, y = torch.empty(1000, device=device), torch.empty(1000, device=device)
        if rank == 0:
            work = dist.all_reduce(x, async_op=True)
            y += 1
            dist.send(y, 1)
        else:
            dist.recv(y, 0)
            work = dist.all_reduce(x, async_op=True)
        work.wait()
        torch.accelerator.synchronize()
        return sim.now()

    assert min(run(program)) > 0


def test_kernels_run_normally_after_a_failed_program():
    """Rank 0 has called a collective, and has run no kernel since."""

    def program(rank, device):
        dist.all_reduce(torch.empty(1000, device=device), async_op=True)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run(program)
    x = torch.empty(10, device="sim")
    assert (x + 1).shape == (10,)


@pytest.mark.slow
def test_the_backward_pass_under_ddp_is_slower_than_alone():
    def program(rank, device):
        with torch.device("meta"):
            net = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(6)]).half()
        net = net.to_empty(device=device)
        model = torch.nn.parallel.DistributedDataParallel(net)
        x = torch.empty(4096, 4096, device=device, dtype=torch.float16)
        for module in (net, model, model):  # in its first step DDP sends everything at the end
            module(x).sum().backward()

    run(program)
    products = kernels("mm")
    count = len(products) // 3
    alone, beside = products[:count], products[-count:]
    assert all(b >= a * (1 - 1e-9) for a, b in zip(alone, beside, strict=True))
    assert sum(beside) > 1.02 * sum(alone)


def by_small_steps(parts, start, gpu, flops, num_bytes, steps=20_000):
    """Return how long a kernel takes, by integrating its progress in small steps."""
    step = gpu.seconds(flops, num_bytes) / steps
    now, done = start, 0.0
    while done < 1:
        here = [p for p in parts if p[0] <= now < p[1]]
        taken = (min(sum(p[i] for p in here), MOST) for i in (2, 3))
        done += step / gpu.seconds_beside(flops, num_bytes, "float32", (), *taken)
        now += step
    return now - start


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_any_number_of_collectives_against_numerical_integration(seed):
    draw = random.Random(seed)
    flops, num_bytes = draw.choice([(10**11, 10**6), (10**8, 10**9), (10**11, 10**10)])
    length = A100.seconds(flops, num_bytes)
    contention, parts = Contention(), []
    for _ in range(5):
        start = draw.uniform(-1, 2) * length
        part = start, start + draw.random() * length, draw.random() / 2, draw.random() / 2
        parts.append(part)
        contention.add(*part)

    def beside(*taken):
        return A100.seconds_beside(flops, num_bytes, "float32", (), *taken)

    start, seconds = contention.place(Engine(), 0.0, beside, -length)
    assert start == 0
    assert seconds == pytest.approx(by_small_steps(parts, 0.0, A100, flops, num_bytes), rel=1e-3)
    assert seconds > length


def test_a_collective_that_waits_takes_multiprocessors_and_no_bandwidth():
    contention, found = Contention(), []
    contention.add_collective(0.0, 10.0, 20.0, 0.25, 0.5)
    for ready in (0.0, 11.0):
        place = lambda m, b: found.append((m, b)) or 1.0  # noqa: E731
        contention.place(Engine(), ready, place, 0.0)
    assert found[0] == (0.25, 0.0)
    assert found[-1] == (0.25, 0.5)


def test_something_is_always_left():
    contention = Contention()
    for _ in range(10):
        contention.add(0.0, 10.0, 0.3, 0.3)
    _, seconds = contention.place(
        Engine(), 0.0, lambda m, b: A100.seconds_beside(10**9, 0, "float32", (), m, b), 0.0
    )
    work = A100.seconds(10**9, 0) - A100.kernel_overhead
    assert seconds == pytest.approx(A100.kernel_overhead + work / (1 - MOST))


def test_a_kernel_that_grows_finds_a_gap_that_is_long_enough():
    engine, contention = Engine(), Contention()
    engine.book(1.5, 3.0, 0.0)  # a gap of 1.5 s, then one without end
    contention.add(0.0, 2.0, 0.5, 0.0)
    start, seconds = contention.place(engine, 0.0, lambda m, b: 1.0 / (1 - m), 0.0)
    assert (start, seconds) == (3.0, 1.0)
    assert engine.earliest(0.0, 1.5) == 0.0


def test_what_an_edge_has_promised_adds_up_and_is_kept_while_it_lasts():
    edge = links._EdgeUse()
    for start, end, share in ((0, 2, 0.5), (2, 10, 0.25), (2, 10, 0.25)):
        edge.add(start, end, share, speed=1.0, horizon=0)
    later = pytest.approx(1 / 1.5)  # beside two that want a quarter each
    assert edge.rate(6, 1.0) == later
    edge.add(20, 21, 1.0, speed=1.0, horizon=5)  # forgets what ended at 2
    assert edge.rate(6, 1.0) == later
    assert edge.next_change(6) == 10
