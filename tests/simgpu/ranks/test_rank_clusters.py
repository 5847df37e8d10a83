"""Ranks on several nodes: the cost of communication, link sharing, and rank placement."""

import os
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

import simgpu as sim
from simgpu.network import SYSTEMS, build_cluster, cost, find_cluster, find_network, measured
from simgpu.ranks.communication.links import Links, Transfer

SIZE = 2**26  # bytes
HARDWARE = {"gpu": "a100", "link": "nvlink3"}
CARD = 100 / 8 * 1e9 * 0.96  # bytes/s of one card of 100 Gbit/s, less headers
CHANNELS = 24  # of an A100; two of them where each node has one member
NIC = CARD * measured.WIRE  # what messages reach on it


def run(program, k, nodes=1, network=None, **hardware):
    def with_group(rank):
        dist.init_process_group()
        return program(rank, torch.accelerator.current_accelerator())

    options = {**HARDWARE, "nodes": nodes, "network": network, "numerics": False, **hardware}
    return sim.spawn(with_group, nprocs=k, **options)


def spans_of(rank):
    """Return the communication of a rank."""
    spans = [s for s in sim.trace() if s.engine == "comm"]
    return [s for s in spans if s.device.startswith(f"rank {rank} ")]


def durations(groups, k, nodes, network, delay=0, **hardware):
    """Return the duration of an all_reduce in each of several groups that start together."""

    def program(rank, device):
        made = [dist.new_group(group) for group in groups]
        x = torch.empty(SIZE // 4, device=device)
        for group, handle in zip(groups, made, strict=True):
            if rank in group:
                dist.all_reduce(x, group=handle)

    run(program, k, nodes, network, **hardware)
    found = [[spans_of(rank)[0] for rank in group] for group in groups]
    assert all(len({(s.start, s.duration) for s in members}) == 1 for members in found)
    return [members[0].duration for members in found]


ONE_CARD = 4, 2, "ethernet100"


def test_two_groups_over_one_card_take_twice_as_long_as_one():
    (alone,) = durations([(0, 2)], *ONE_CARD)
    wire = SIZE / NIC  # a ring of two passes two halves over the card
    assert alone == pytest.approx(wire + measured.filling(SIZE, 1 / CARD, 2, 1), rel=0.02)
    both = durations([(0, 2), (1, 3)], *ONE_CARD)
    assert both == pytest.approx([alone + wire] * 2)
    cluster = build_cluster(4, "a100", "nvlink3", 2, "ethernet100")
    expected = cost("all_reduce", SIZE, (0, 2), cluster, alongside=[(1, 3)]).seconds
    assert both == pytest.approx([expected] * 2)


def test_groups_on_different_nodes_or_cards_do_not_slow_each_other():
    (inside,) = durations([(0, 1)], *ONE_CARD)
    assert durations([(0, 1), (2, 3)], *ONE_CARD) == [inside] * 2
    (across,) = durations([(0, 2)], 4, 2, "hdr")
    assert durations([(0, 2), (1, 3)], 4, 2, "hdr") == [across] * 2
    assert durations([(0, 2), (1, 3)], 4, 1, None)[0] < across


def test_pairs_are_slowed_by_the_host_bandwidth_that_they_share():
    rate = sim.LINKS["pcie4"].peer_bandwidth
    pairs = [(i, i + 1) for i in range(0, 8, 2)]
    (alone,) = durations(pairs[:1], 8, 1, None, link="pcie4")
    assert 2 * rate < 80e9 < 4 * rate
    wire = SIZE / rate / measured.WIRE
    assert durations(pairs, 8, 1, None, link="pcie4") == pytest.approx(
        [alone + wire * (8 * rate / 80e9 - 1)] * 4
    )


def test_a_later_transfer_slows_an_earlier_one_and_no_byte_is_lost():
    def program(rank, device):
        groups = [dist.new_group(group) for group in ((0, 2), (1, 3))]
        x = torch.empty(SIZE // 4, device=device)
        if rank % 2:
            torch.empty(3000, 3000, device=device) @ torch.empty(3000, 3000, device=device)
        dist.all_reduce(x, group=groups[rank % 2])

    run(program, *ONE_CARD)
    first, second = spans_of(0)[0], spans_of(1)[0]
    (alone,) = durations([(0, 2)], *ONE_CARD)
    wire, late = SIZE / NIC, second.start - first.start
    assert 0.1 * wire < late < 0.9 * wire
    assert first.duration == pytest.approx(alone + (wire - late))
    assert second.end - first.start == pytest.approx(alone + wire)


def test_a_late_transfer_gets_its_share_and_the_edge_carries_no_more_than_it_can():
    cluster = build_cluster(4, "a100", "nvlink3", 2, "ethernet100")
    found = cost("all_reduce", SIZE, (0, 2), cluster)
    wire = found.seconds - found.latency
    links, card = Links(), ("nic", 0, 0, "out")
    early, soon = (Transfer(start, found, {card: 1.0}) for start in (0.0, wire / 2))
    assert links.advance([early, soon], 0.0) == []  # early is halfway when soon begins
    late = Transfer(0.0, found, {card: 1.0})
    ends = follow(links, [early, soon, late])
    # Half a wire in which early has all, and late half of that; a quarter for this debt; then they
    # share: thirds until early has its other half, halves until late has its last quarter.
    shared = 1 / 2 + 1 / 4
    wanted = {early: shared + 3 / 2, late: shared + 3 / 2 + 2 / 4, soon: 3}
    for transfer, wires in wanted.items():
        assert ends[transfer] == pytest.approx(found.latency + wires * wire)


def follow(links, transfers):
    """Return when each of the transfers ends."""
    ends = {}
    while transfers:
        for transfer in links.advance(transfers, 0.0):
            ends[transfer] = transfer.followed_to
        transfers = [transfer for transfer in transfers if transfer not in ends]
    return ends


def test_a_message_is_not_delayed_to_the_end_of_a_collective_that_began_before():
    """Rank 1's message comes up after both have waited; the sum has its link already."""

    def program(rank, device):
        group = dist.new_group([0, 2])
        x, y = torch.empty(SIZE // 4, device=device), torch.empty(SIZE // 400, device=device)
        if rank in (0, 2):
            work = dist.all_reduce(x, group=group, async_op=True)
        for _ in range(3):  # each waits for the one before
            if rank in (1, 3):
                message = dist.isend(y, 3) if rank == 1 else dist.irecv(y, 1)
                message.wait()
        if rank in (0, 2):
            work.wait()

    run(program, *ONE_CARD)
    (summed,), messages = spans_of(0), spans_of(1)
    assert all(span.end < summed.end for span in messages)
    (alone,) = durations([(0, 2)], *ONE_CARD)
    assert summed.duration == pytest.approx(
        alone + sum(span.duration for span in messages) / 2, 0.1
    )


@pytest.mark.parametrize(("k", "nodes", "network"), [(8, 1, None), (4, 2, "hdr")])
def test_every_collective_costs_what_the_hardware_says(k, nodes, network):
    def program(rank, device):
        whole, part = (torch.empty(SIZE // 4 // n, device=device) for n in (1, k))
        parts = [torch.empty_like(part) for _ in range(k)]
        root = k - 1
        dist.all_reduce(whole)
        dist.broadcast(whole, root)
        dist.reduce(whole, root)
        dist.all_gather_into_tensor(whole, part)
        dist.reduce_scatter_tensor(part, whole)
        dist.all_to_all_single(torch.empty_like(whole), whole)
        dist.gather(part, parts if rank == root else None, root)
        dist.scatter(part, parts if rank == root else None, root)
        if rank == root:
            dist.send(whole, 0)
        elif rank == 0:
            dist.recv(whole, root)
        dist.barrier()

    run(program, k, nodes, network)
    cluster = build_cluster(k, "a100", "nvlink3", nodes, network)
    spans = spans_of(0)
    root_first = (k - 1, *range(k - 1))
    for span in spans:
        members = (k - 1, 0) if span.name == "send" else root_first
        name, size = ("all_reduce", 4) if span.name == "barrier" else (span.name, SIZE)
        assert (span.name, span.duration) == (
            span.name, pytest.approx(cost(name, size, members, cluster).seconds)
        )  # fmt: skip
    assert len(spans) == 10


@pytest.mark.sample(3)
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("nodes", [1, 2])
def test_an_all_reduce_takes_what_is_predicted_for_published_measurements(system, nodes):
    """Eight GPUs, from latency-bound to bandwidth-bound sizes."""
    cluster = find_cluster(system, nodes, 8 // nodes)
    sizes = [2**15, 2**20, 2**25, 2**30, 2**33]

    def program(rank, device):
        for size in sizes:
            dist.all_reduce(torch.empty(size // 4, device=device))

    run(program, 8, nodes, cluster.network, gpu=cluster.gpu, link=cluster.link)
    expected = [cost("all_reduce", size, range(8), cluster).seconds for size in sizes]
    assert [span.duration for span in spans_of(0)] == pytest.approx(expected)


@pytest.mark.parametrize(("root", "parts_between_nodes"), [(0, 1), (2, 2)])
def test_a_gather_moves_the_parts_of_other_nodes_to_the_node_of_the_root(root, parts_between_nodes):
    def program(rank, device):
        group = dist.new_group([0, 1, 2])
        part = torch.empty(SIZE // 4, device=device)
        parts = [torch.empty_like(part) for _ in range(3)] if rank == root else None
        if rank != 3:
            dist.gather(part, parts, root, group)

    run(program, *ONE_CARD)
    spans = [s for s in sim.trace() if s.name == "gather" and s.engine == "comm"]
    expected = parts_between_nodes * SIZE / NIC
    expected += measured.filling(3 * SIZE, parts_between_nodes / 3 / CARD, CHANNELS, 1)
    assert spans[0].duration == pytest.approx(expected, rel=0.02)


def test_uneven_parts_cost_what_the_largest_member_gives():
    def program(rank, device):
        mine = torch.empty(SIZE // 4 * (1 + 3 * rank), device=device)
        sizes = [[SIZE // 8] * 2, [SIZE // 2] * 2]
        out = torch.empty(SIZE // 8 + SIZE // 2, device=device)
        dist.all_to_all_single(out, mine, [s[rank] for s in sizes], sizes[rank])

    run(program, 2)
    found = cost("all_to_all", 4 * SIZE, (0, 1), build_cluster(2, **HARDWARE))
    spans = [s for s in sim.trace() if s.engine == "comm"]
    assert [s.bytes for s in spans] == [4 * SIZE] * 2
    assert spans[0].duration == pytest.approx(found.seconds)


@pytest.mark.parametrize("away", [0.0, 0.25, 1.0])
def test_of_uneven_parts_the_cards_carry_what_leaves_the_node(away):
    """Two nodes of two: the share `away` of each rank's data goes to the rank opposite."""
    sizes = [[0] * 4 for _ in range(4)]
    for rank in range(4):
        sizes[rank][(rank + 2) % 4] = int(away * SIZE / 4)
        sizes[rank][rank ^ 1] = SIZE // 4 - sizes[rank][(rank + 2) % 4]

    def program(rank, device):
        mine, out = (torch.empty(SIZE // 4, device=device) for _ in range(2))
        dist.all_to_all_single(out, mine, [s[rank] for s in sizes], sizes[rank])

    run(program, 4, nodes=2, network="hdr")
    (duration,) = {s.duration for s in sim.trace() if s.engine == "comm"}
    cluster = build_cluster(4, **HARDWARE, nodes=2, network="hdr")
    card, board = cluster.network.nic_rate, cluster.board.pair_rate(0, 1)
    slowest = max(away * SIZE / card, (1 - away) * SIZE / board)
    even = cost("all_to_all", SIZE, range(4), cluster)
    assert slowest < duration < 1.1 * (slowest + even.latency)
    assert duration < even.seconds if away < 0.5 else duration > 1.2 * even.seconds


NAMES = "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK"


def test_every_rank_knows_its_node_and_its_device_there():
    def program(rank, device):
        local = int(os.environ["LOCAL_RANK"])
        torch.accelerator.set_device_index(local)
        x = torch.ones(2, device=torch.device(device.type, local))
        y = torch.zeros_like(x).to(device.type)
        dist.all_reduce(y + torch.zeros(2, device=x.device))
        assert {x.device, y.device, x.to(x.device).device} == {torch.device(device.type, local)}
        assert x.get_device() == torch.accelerator.current_device_index() == local
        assert torch.accelerator.memory_allocated(local) > 0
        return [int(os.environ[name]) for name in NAMES], sim.current_device()

    found = run(program, 6, 3, "hdr")
    assert found == [([rank, rank % 2, 6, 2, rank // 2, rank // 2], rank % 2) for rank in range(6)]
    found = run(program, 16, 2, "hdr", ranks=[0, 12])
    assert found == [([0, 0, 16, 8, 0, 0], 0), ([12, 4, 16, 8, 1, 1], 4)]


def test_a_device_without_a_number_is_the_one_of_the_rank():
    def program(rank, device):
        kind = device.type
        made = [f([1.0], device=kind) for f in (torch.tensor, torch.as_tensor, torch.asarray)]
        with torch.device(kind):
            made += [torch.tensor([1.0]), torch.ones(1), torch.nn.Linear(1, 1).weight]
        torch.set_default_device(kind)
        made += [torch.tensor([1.0]), torch.zeros(1)]
        torch.set_default_device(None)
        return {x.get_device() for x in made}

    assert run(program, 3) == [{0}, {1}, {2}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 16}, "16 GPUs do not fit.*more nodes and a network"),
        ({"k": 16, "nodes": 2}, "without a network.*network='hdr'"),
        ({"k": 9, "nodes": 2, "network": "hdr"}, "9 GPUs.*evenly over 2 nodes"),
        ({"k": 4, "nodes": 2, "network": "token ring"}, "unknown network.*hdr"),
    ],
)
def test_invalid_clusters(options, message):
    with pytest.raises(ValueError, match=message):
        run(print, **options)


def test_a_custom_network():
    slow = replace(find_network("hdr"), name="half", rate=12.5e9)

    def seconds(network):
        return durations([(0, 1)], 2, 2, network)[0]

    assert seconds(slow) > 1.9 * seconds("hdr")


def test_afterwards_devices_are_called_by_their_number_again():
    """In a rank, a device is called by its number on the node."""
    sim.close()  # else the machine of an earlier test would be back
    names = sim.spawn(
        lambda rank: str(torch.ones(1, device="sim").device), nprocs=4, nodes=2, network="hdr"
    )
    assert names == ["sim:0", "sim:1", "sim:0", "sim:1"]
    afterwards = [torch.ones(1, device=f"sim:{i}").device.index for i in range(4)]
    assert afterwards == [0, 1, 2, 3]
