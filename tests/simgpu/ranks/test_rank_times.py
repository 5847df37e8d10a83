"""When communication starts, how long it takes, and what it shares."""

import pytest
import torch
import torch.distributed as dist

import simgpu as sim

SIZE = 2**28  # bytes


def run(program, k, link="nvlink3", nodes=1, network=None):
    """Run ``program(rank, device)`` on A100s."""

    def with_group(rank):
        dist.init_process_group()
        return program(rank, torch.accelerator.current_accelerator())

    return sim.spawn(
        with_group, nprocs=k, gpu="a100", link=link, nodes=nodes, network=network, numerics=False
    )


def spans_of(name, rank=0):
    return [s for s in sim.trace() if s.name == name and s.device == f"rank {rank} sim:{rank}"]


# Of NCCL's protocol Simple: seconds before the first step, of a step, and bytes/s a GPU.
START = 8.4e-6
WIRES = {"nvlink3": (3.4e-6, 240e9), "pcie3": (5.7e-6, sim.LINKS["pcie3"].peer_bandwidth)}
HOST = 80e9  # bytes/s through the host, for all


def wire_seconds(passes, rate):
    """Return the time of `SIZE` bytes that pass the busiest wire so often, as they are measured.

    Links reach 96 % of NCCL's rate, and a message takes as long as if it had up to 20 MB more.
    """
    fill = (2 if rate < 100e9 else 24) * 2**20  # a slice of each channel
    return passes / rate * (SIZE / 0.96 + fill * SIZE / (SIZE + fill))


FIRST = {"all_gather": 5.5e-6, "reduce_scatter": 5.5e-6, "send": 2e-6}  # seconds, measured


@pytest.mark.slow
@pytest.mark.parametrize("link", WIRES)
@pytest.mark.parametrize("k", [2, 8])
def test_rings_move_the_bytes_of_the_formulas(k, link):
    step, rate = WIRES[link]
    rate = rate if link == "nvlink3" else min(rate, HOST / k)
    rounds = {"all_reduce": 2 * (k - 1), "all_gather": k - 1, "reduce_scatter": k - 1}

    def program(rank, device):
        whole = torch.empty(SIZE // 4, device=device)
        part = torch.empty(SIZE // 4 // k, device=device)
        dist.all_reduce(whole)
        dist.all_gather_into_tensor(whole, part)
        dist.reduce_scatter_tensor(part, whole)
        dist.broadcast(whole, k - 1)

    run(program, k, link)
    for name, count in rounds.items():
        (span,) = spans_of(name)
        assert (span.bytes, span.ranks) == (SIZE, k)
        start = START + FIRST.get(name, 0) + count * step
        assert span.duration == pytest.approx(start + wire_seconds(count / k, rate))
    (chain,) = spans_of("broadcast")  # all bytes pass every wire once, in a pipeline
    assert chain.duration == pytest.approx(START + (k - 1) * step + wire_seconds(1, rate))


def test_a_single_rank_communicates_in_no_time():
    run(lambda rank, device: dist.all_reduce(torch.empty(SIZE // 4, device=device)), 1)
    (span,) = spans_of("all_reduce")
    assert span.duration == 0


@pytest.mark.parametrize("busy", ["host", "device"])
def test_a_collective_starts_when_its_last_rank_is_ready(busy):
    def program(rank, device):
        x = torch.ones(4, device=device)
        if rank == 1 and busy == "host":
            with sim.host_ops():
                torch.ones(500, 500) @ torch.ones(500, 500)
        elif rank == 1:
            torch.empty(4000, 4000, device=device) @ torch.empty(4000, 4000, device=device)
        dist.all_reduce(x)
        x.sum().item()

    run(program, 2)
    own = [s for s in sim.trace() if s.device.startswith("rank 1") and s.name == "mm"]
    for rank in range(2):
        (collective,) = spans_of("all_reduce", rank)
        assert collective.start >= max(s.end for s in own)


@pytest.mark.slow
def test_messages_into_one_rank_share_its_link_and_those_of_pairs_do_not():
    def program(rank, device, pairs):
        x = torch.empty(SIZE // 4, device=device)
        for source, target in pairs:
            if rank == source:
                dist.send(x, target)
            elif rank == target:
                dist.recv(x, source)

    def span_of_all(pairs):
        run(lambda rank, device: program(rank, device, pairs), 4)
        spans = [s for s in sim.trace() if s.engine == "comm"]
        return max(s.end for s in spans) - min(s.start for s in spans)

    one = span_of_all([(0, 1)])
    assert span_of_all([(0, 1), (2, 3)]) == pytest.approx(one, rel=0.01)
    assert span_of_all([(0, 3), (1, 3)]) > 1.9 * one


def both_ways(x, y, rank, batched):
    """Exchange two tensors of two ranks in one batch, or one after the other."""
    calls = [(dist.isend, x), (dist.irecv, y)]
    if batched:
        works = dist.batch_isend_irecv([dist.P2POp(call, t, 1 - rank) for call, t in calls])
    else:
        works = [call(t, 1 - rank) for call, t in (calls if rank == 0 else calls[::-1])]
    for work in works:
        work.wait()


@pytest.mark.parametrize("batched", [True, False])
def test_both_directions_of_a_link_are_used_at_once_by_a_batch_alone(batched):
    def program(rank, device):
        x, y = (torch.empty(SIZE // 4, device=device) for _ in range(2))
        both_ways(x, y, rank, batched)

    run(program, 2)
    spans = [s for s in sim.trace() if s.engine == "comm"]
    step, rate = WIRES["nvlink3"]
    channels = 16 * 14e9  # bytes/s: fewer than the wires would carry
    one = START + FIRST["send"] + step + wire_seconds(1, rate) + SIZE / channels - SIZE / rate
    assert [s.duration for s in spans] == pytest.approx([one] * 4)
    whole = max(s.end for s in spans) - min(s.start for s in spans)
    assert whole == pytest.approx(one if batched else 2 * one)


def test_the_host_issues_a_collective_or_a_batch_in_the_time_of_pytorch():
    spec = sim.GPUS["a100"]
    once, more = spec.collective_launch_overhead, spec.launch_overhead
    assert 20e-6 <= once <= 30e-6, "what was measured with torch.distributed"

    def program(rank, device):
        x, y = torch.empty(4, device=device), torch.empty(4, device=device)
        found = []
        for call in (
            lambda: x + 1,
            lambda: dist.all_reduce(x, async_op=True),
            lambda: dist.send(x, 1) if rank == 0 else dist.recv(x, 0),
            lambda: both_ways(x, y, rank, batched=True),
            lambda: dist.all_reduce(torch.ones(2)),  # by gloo
        ):
            torch.accelerator.synchronize()
            dist.barrier()
            start = sim.now()
            call()
            found.append(sim.now() - start)
        return found

    found = run(program, 2)[0]
    assert found[:4] == pytest.approx([more, once, once, once + more])
    assert found[4] == pytest.approx(50e-6), "what a collective on the host takes"


@pytest.mark.parametrize("first_is_over", [False, True])
def test_what_is_called_later_gets_its_share_of_the_wires(first_is_over):
    """What five groups send over the same wires takes the time of all their bytes."""
    sizes = [1, 4, 1, 1, 1]

    def program(rank, device):
        works = []
        for i, size in enumerate(sizes):
            x = torch.empty(size * SIZE // 4, device=device)
            if i == len(sizes) - 1:  # after all the others: it waits for what they sent too much
                for work in works:
                    work.wait()
                torch.accelerator.current_stream().synchronize()
            works.append(dist.all_reduce(x, group=dist.new_group([0, 1]), async_op=True))
            if i == 0:
                continue  # the first two are followed together, the others one by one
            assert not works[-1].is_completed()
            if first_is_over:
                works[0].wait()
                torch.accelerator.current_stream().synchronize()

    run(program, 2)
    spans = spans_of("all_reduce")
    step, rate = WIRES["nvlink3"]
    rest = (sum(sizes) - 1) * SIZE / rate / 0.96  # the pipeline is full by then
    seconds = START + 2 * step + wire_seconds(1, rate) + rest
    assert max(s.end for s in spans) - spans[0].start == pytest.approx(seconds, rel=1e-9)
    assert len(spans) == len(sizes)
    first, large, *late, _ = spans
    assert all(first.start < span.start and span.end < large.end for span in late)


def test_what_comes_after_a_wait_in_the_stream_starts_when_the_collective_has_ended():
    def program(rank, device):
        x = torch.empty(SIZE // 4, device=device)
        work = dist.all_reduce(x, async_op=True)
        torch.ones(4, device=device)
        work.wait()
        x.relu()

    run(program, 2)
    (collective,), (before,), (after,) = map(spans_of, ("all_reduce", "ones", "relu"))
    assert before.end < collective.end == after.start


def test_what_a_callback_computes_is_waited_for_where_it_is_used():
    """As for the result of a communication hook of DDP, nobody calls wait()."""

    def program(rank, device):
        x = torch.empty(4096, 4096, device=device)
        future = dist.all_reduce(x, async_op=True).get_future()
        product = future.then(lambda done: done.value()[0] @ done.value()[0]).value()
        product.relu()

    run(program, 2)
    (collective,), (product,), (after,) = map(spans_of, ("all_reduce", "mm", "relu"))
    assert collective.end == product.start
    assert product.end == after.start


def test_asking_whether_a_collective_is_over_costs_the_host_a_microsecond():
    def program(rank, device):
        work = dist.all_reduce(torch.empty(SIZE // 4, device=device), async_op=True)
        before = sim.now()
        assert not any(work.is_completed() for _ in range(10))
        return sim.now() - before

    assert run(program, 2) == pytest.approx([10e-6] * 2)
