"""Streams, events and races in ranks, by PyTorch's generic accelerator API."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import simgpu as sim

SIZE = 1000


def device():
    return torch.accelerator.current_accelerator()


def ranks(program, nprocs=2, **options):
    return sim.spawn(program, nprocs=nprocs, gpu="v100", link="pcie3", **options)


def copy_and_products(rank, side_by_side):
    """Return the end of a copy and of products that can overlap."""
    x = torch.ones(SIZE, SIZE, device=device())
    host = torch.empty(SIZE, SIZE).pin_memory()
    torch.accelerator.synchronize()
    start = sim.now()
    stream = torch.Stream() if side_by_side else torch.accelerator.current_stream()
    with stream:
        host.copy_(x, non_blocking=True)
    for _ in range(20):
        x @ x
    torch.accelerator.synchronize()
    return sim.now() - start


@pytest.mark.slow
def test_a_stream_of_torch_is_a_stream():
    overlapped, in_order = (
        ranks(lambda rank, side=side: copy_and_products(rank, side), numerics=False)
        for side in (True, False)
    )
    assert overlapped[0] == overlapped[1]
    copy = SIZE**2 * 4 / sim.LINKS["pcie3"].bandwidth
    assert in_order[0] - overlapped[0] == pytest.approx(copy, rel=0.1)


def test_kernels_of_a_stream_with_priority_wait_for_no_others():
    def program(rank, priority):
        x = torch.ones(SIZE, SIZE, device=device())
        stream = sim.Stream(device(), priority=priority)
        torch.accelerator.synchronize()
        start = sim.now()
        for _ in range(20):
            x @ x
        with stream:
            x + 1
        stream.synchronize()
        return sim.now() - start

    (urgent,), (ordinary,) = (
        ranks(program, nprocs=1, args=(priority,), numerics=False) for priority in (-1, 0)
    )
    assert urgent < ordinary / 5


@pytest.mark.slow
def test_events_of_torch_measure_time():
    def program(rank):
        before, after = (torch.Event(device(), enable_timing=True) for _ in range(2))
        x = torch.ones(SIZE, SIZE, device=device())
        torch.accelerator.synchronize()
        before.record()
        start = sim.now()
        for _ in range(5):
            x @ x
        after.record()
        assert not after.query()
        after.synchronize()
        assert after.query()
        return before.elapsed_time(after) / 1e3, sim.now() - start

    for by_events, by_clock in ranks(program):
        assert by_events == pytest.approx(by_clock, rel=0.01)


@pytest.mark.slow
def test_an_event_of_torch_lets_a_stream_wait():
    def program(rank):
        x, side = torch.ones(SIZE, SIZE, device=device()), torch.Stream(device())
        y = x @ x
        done = torch.accelerator.current_stream().record_event(torch.Event())
        if rank == 0:
            side.wait_event(done)
        with side:
            return (y + 1).sum().item()

    with (
        sim.check_races(),
        pytest.raises(sim.RaceError, match=r"'add' in stream 1 of sim:1.*wait_event"),
    ):
        ranks(program)


def test_streams_and_events_have_the_types_that_programs_check():
    def program(rank):
        made = torch.Stream(), torch.Event(), torch.accelerator.current_stream()
        assert [str(made[0].device), str(made[2].device)] == [f"sim:{rank}"] * 2
        assert isinstance(made[0], torch.Stream)
        assert isinstance(made[1], torch.Event)
        assert isinstance(made[2], torch.Stream)
        assert not isinstance(made[0], torch.Event)
        assert (
            type(torch.Stream("cpu")).__module__ == type(torch.Event("cpu")).__module__ == "torch"
        )
        assert isinstance(torch.Event("cpu"), torch.Event)

    ranks(program)


def test_an_event_without_timing_measures_none():
    def program(rank):
        event = torch.Event(device())
        event.record()
        event.elapsed_time(event)

    with pytest.raises(ValueError, match="enable_timing=True"):
        ranks(program)


# Races


def forget_to_wait(rank, late=0):
    x, side = torch.ones(SIZE, device=device()), torch.Stream()
    if rank != late:
        side.wait_stream(torch.accelerator.current_stream())
    with side:
        return (x + 1).sum().item()


@pytest.mark.slow
def test_a_block_around_the_ranks_sees_each_of_them():
    for late in range(3):
        with (
            sim.check_races(),
            pytest.raises(sim.RaceError, match=f"'add' in stream 1 of sim:{late}"),
        ):
            ranks(lambda rank, late=late: forget_to_wait(rank, late), nprocs=3)
    with sim.check_races():
        assert ranks(lambda rank: forget_to_wait(rank, None)) == [2 * SIZE] * 2


def test_a_block_around_the_ranks_sees_their_hosts():
    def program(rank, waits):
        host = torch.ones(SIZE, device=device()).to("cpu", non_blocking=True)
        if waits:
            torch.accelerator.synchronize()
        return host.sum().item()

    with (
        sim.check_races(),
        pytest.raises(sim.RaceError, match=r"'sum' on the host.*copy sim:0 -> cpu"),
    ):
        ranks(lambda rank: program(rank, False))
    with sim.check_races():
        assert ranks(lambda rank: program(rank, True)) == [SIZE] * 2


def test_a_block_in_a_rank_is_refused():
    def program(rank):
        with sim.check_races():
            return torch.ones(2, device=device()).sum().item()

    for nprocs in (1, 2):
        with pytest.raises(RuntimeError, match=r"check_races\(\) is not .*around sim\.spawn\(\)"):
            ranks(program, nprocs)


@pytest.mark.slow
def test_correct_programs_have_no_races():
    def program(rank):
        dist.init_process_group()
        torch.manual_seed(0)
        net = DistributedDataParallel(nn.Linear(4, 2).to(device()))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            batch = torch.randn(8, 4).pin_memory().to(device(), non_blocking=True)
            net(batch).square().mean().backward()
            optimizer.step()
        x = torch.ones(4, device=device())
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        return (x + 1).sum().item()

    with sim.check_races():
        assert ranks(program) == [12, 12]


# All ranks named


@pytest.mark.slow
def test_with_all_ranks_listed_the_program_runs_once():
    for named in (1, 3):
        calls = []
        ranks(calls.append, named, ranks=list(range(named)), numerics=False)
        assert calls == list(range(named))
    calls = []
    ranks(calls.append, 3, ranks=[0, 1], numerics=False)
    assert sorted(calls) == [0, 0, 1, 2], "the last rank for which another stands runs, too"
