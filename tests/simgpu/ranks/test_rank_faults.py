"""`spawn` with a slow GPU or a slow network card."""

import re

import pytest
import torch
import torch.distributed as dist

import simgpu as sim

WIDE = 2**22


def kernels(rank):
    device = torch.accelerator.current_accelerator()
    x = torch.ones(512, 512, device=device)
    (x @ x).relu()


def ring(rank, sizes=(WIDE,)):
    """Send something around a ring of all ranks, with one message at a time on each card."""
    dist.init_process_group()
    count = dist.get_world_size()
    device = torch.accelerator.current_accelerator()
    for size in sizes:
        out, into = torch.ones(size, device=device), torch.empty(size, device=device)
        operations = [dist.P2POp(dist.isend, out, (rank + 1) % count)]
        operations.append(dist.P2POp(dist.irecv, into, (rank - 1) % count))
        for work in dist.batch_isend_irecv(operations):
            work.wait()


def pairs(rank):
    """Sum up numbers with the rank on the same card's place of the other node."""
    dist.init_process_group()
    groups = [dist.new_group([i, i + 2]) for i in range(2)]
    dist.all_reduce(torch.ones(WIDE, device=f"sim:{rank % 2}"), group=groups[rank % 2])


def seconds(engine="comm"):
    """Return how long the spans of each rank take."""
    found = {}
    for span in sim.trace():
        if span.engine == engine and (engine == "compute" or span.bytes >= WIDE):
            found.setdefault(int(span.device.split()[1]), []).append(span.duration)
    return found


@pytest.mark.slow
def test_kernels_of_a_slow_gpu():
    sim.spawn(kernels, nprocs=3, gpu="a100", slow={1: 2.5})
    found = seconds("compute")
    assert found[0] == found[2]
    assert found[1] == pytest.approx([2.5 * duration for duration in found[0]])
    sim.spawn(kernels, nprocs=3, gpu="a100")
    assert seconds("compute")[1] == found[0], "the next run has no faults"


@pytest.mark.slow
def test_sums_over_a_slow_card_take_longer_and_others_do_not():
    how = {"nprocs": 4, "nodes": 2, "gpu": "a100", "network": "25GB/s:2"}
    sim.spawn(pairs, **how)
    usual = seconds()
    sim.spawn(pairs, **how, slow_cards={3: 4})
    found = seconds()
    assert found[0] == usual[0]
    for rank in (1, 3):  # both ends wait
        assert 3.5 < found[rank][0] / usual[rank][0] < 4


@pytest.mark.slow
def test_messages_to_and_from_a_slow_card():
    how = {"nprocs": 4, "nodes": 4, "gpu": "a100", "network": "25GB/s"}
    sim.spawn(ring, **how)
    (usual,) = {round(duration, 9) for each in seconds().values() for duration in each}
    sim.spawn(ring, **how, slow_cards={2: 4})
    slow = {r: [d > 3 * usual for d in each] for r, each in seconds().items()}
    assert [sum(slow[rank]) for rank in range(4)] == [0, 1, 2, 1]


@pytest.mark.slow
def test_ranks_that_share_a_card_share_its_fault():
    how = {"nprocs": 4, "nodes": 2, "gpu": "a100", "network": "25GB/s"}
    sim.spawn(pairs, **how)
    usual = seconds()
    sim.spawn(pairs, **how, slow_cards={3: 4})
    assert all(3.5 < seconds()[rank][0] / usual[rank][0] < 4 for rank in range(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slow": {2: 2.0}}, "rank 2 cannot be 2.0 times as slow; give a rank from 0 to 1"),
        ({"slow": {1: 0}}, "rank 1 cannot be 0 times as slow"),
        ({"slow_cards": {-1: 2}}, "rank -1 cannot be 2 times as slow"),
        ({"slow_cards": {1: 2}}, "has no network cards that could be slow; give several nodes"),
        ({"slow": {1: 2}, "ranks": [0], "numerics": False}, "need all ranks; leave `ranks` out"),
    ],
)
def test_faults_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        sim.spawn(kernels, nprocs=2, **options)
