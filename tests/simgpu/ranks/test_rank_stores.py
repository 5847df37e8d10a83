"""Stores of the rendezvous and of programs: waits end in simulated time, and block no rank."""

import os
import time
from datetime import timedelta
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from torch.distributed import TCPStore

import simgpu as sim
from simgpu.clock.current import current_machine

PORT = 29911


def default_store(rank):
    dist.init_process_group()
    return dist.distributed_c10d._get_default_store()


def tcp_store(rank, **options):
    return TCPStore("127.0.0.1", PORT, int(os.environ["WORLD_SIZE"]), rank == 0, **options)


def prefix_store(rank):
    return dist.PrefixStore("mine", dist.PrefixStore("ours", tcp_store(rank)))


MAKERS = {
    "default": default_store,
    "tcp": tcp_store,
    "prefix": prefix_store,
    "file": lambda rank: dist.FileStore("/nowhere/store", 3),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_ranks_exchange_values(make):
    def program(rank):
        store = make(rank)
        store.set(f"from {rank}", str(rank))
        store.wait(["from 0", "from 1", "from 2"], timedelta(seconds=5))
        found = [store.get(f"from {other}") for other in range(3)]
        store.add("arrived", 1)
        while store.add("arrived", 0) < 3:
            store.check(["never set"])  # lets others run
        return found

    start = time.monotonic()
    assert sim.spawn(program, nprocs=3) == [[b"0", b"1", b"2"]] * 3
    assert time.monotonic() - start < 30, "the time limit of PyTorch's store is 300 seconds"


def test_a_wait_ends_after_its_time_limit_and_the_program_goes_on(make):
    def program(rank):
        store = make(rank)
        start = sim.now()
        with pytest.raises(dist.DistStoreError, match=r"300ms.*absent"):
            store.wait(["absent"], timedelta(seconds=0.3))
        waited = sim.now() - start
        store.set(f"late {rank}", "x")
        store.wait([f"late {other}" for other in range(2)])
        return waited

    assert sim.spawn(program, nprocs=2) == pytest.approx([0.3, 0.3])


@pytest.mark.slow
def test_a_key_counts_from_the_time_at_which_it_was_set():
    def program(rank, limit):
        store = default_store(rank)
        if rank == 0:
            current_machine().compute_on_host("prepare", 1)
            store.set("key", "value")
            return sim.now()
        try:
            store.wait(["key"], timedelta(seconds=limit))
        except dist.DistStoreError:
            return "too late", sim.now()
        return "in time", sim.now()

    for limit, verdict in ((0.5, "too late"), (2, "in time")):
        set_at, (found, end) = sim.spawn(program, (limit,), nprocs=2, gpu="v100")
        assert found == verdict
        assert end == pytest.approx(limit if limit < 1 else set_at, abs=1e-3)


def test_the_earliest_time_limit_ends_first():
    def program(rank):
        store = default_store(rank)
        try:
            store.wait(["set by rank 0 after its own"], timedelta(seconds=[0.1, 5][rank]))
        except dist.DistStoreError:
            store.set("set by rank 0 after its own", "")
            return "timed out"
        return "found"

    assert sim.spawn(program, nprocs=2) == ["timed out", "found"]


@pytest.mark.slow
def test_without_a_time_limit_a_wait_is_a_deadlock():
    for wait in (
        lambda store: store.wait(["absent"]),
        lambda store: store.get("absent"),
        lambda store: dist.PrefixStore("p", store).get("absent"),
    ):

        def program(rank, wait=wait):
            wait(default_store(rank))

        with pytest.raises(sim.RanksError, match=r"deadlock(.|\n)*absent"):
            sim.spawn(program, nprocs=2)


def test_time_limits_of_pytorch_itself_do_not_count():
    """It waits for all ranks in a loop, with a limit after which it writes a line to the log."""

    def program(rank):
        store = default_store(rank)
        if rank == 0:
            barrier = dist.distributed_c10d._store_based_barrier
            barrier(rank, store, "group", 2, timedelta(seconds=2), timedelta(seconds=0.1))

    with pytest.raises(sim.RanksError, match=r"deadlock(.|\n)*rank 1 has ended"):
        sim.spawn(program, nprocs=2)


def test_a_limit_that_the_program_sets_holds_for_get(make):
    """C++ sets that of a `PrefixStore`, without calling Python."""

    def program(rank):
        store, starts = make(rank), [sim.now()]
        for seconds in (3, 1):
            store.set_timeout(timedelta(seconds=seconds))
            with pytest.raises(dist.DistStoreError, match=f"{seconds}000ms.*absent"):
                store.multi_get(["absent", "too"])
            starts.append(sim.now())
        return [after - before for before, after in pairwise(starts)]

    assert sim.spawn(program, nprocs=2) == [pytest.approx([3, 1])] * 2


def test_a_limit_that_a_store_is_made_with_holds_for_get():
    def program(rank):
        start = sim.now()
        with pytest.raises(dist.DistStoreError, match="3000ms"):
            tcp_store(rank, timeout=timedelta(seconds=3)).get("absent")
        return sim.now() - start

    assert sim.spawn(program, nprocs=2) == [pytest.approx(3)] * 2


@pytest.mark.slow
def test_a_server_that_nobody_joins_and_a_client_without_a_server():
    def server(rank):
        if rank == 0:
            tcp_store(rank, timeout=timedelta(seconds=2))

    with pytest.raises(dist.DistStoreError, match=r"Timed out after 2 seconds.*1/2 clients joined"):
        sim.spawn(server, nprocs=2)

    def client(rank):
        if rank == 1:
            tcp_store(rank)

    with pytest.raises(sim.RanksError, match=rf"rank 1 connects to .* 127.0.0.1:{PORT}"):
        sim.spawn(client, nprocs=2)

    def two_servers(rank):
        TCPStore("localhost", PORT, None, is_master=True)
        default_store(rank)

    with pytest.raises(dist.DistNetworkError, match=f"port {PORT}.*in use by rank 0"):
        sim.spawn(two_servers, nprocs=2)


def test_a_port_that_the_system_chooses():
    def program(rank):
        dist.init_process_group()
        ports = [None]
        if rank == 0:
            store = TCPStore("localhost", 0, 2, is_master=True, wait_for_workers=False)
            ports = [store.port]
        dist.broadcast_object_list(ports)
        if rank == 1:
            store = TCPStore("localhost", ports[0], 2)
            store.set("key", "value")
        return store.get("key")

    assert sim.spawn(program, nprocs=2) == [b"value"] * 2


@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_groups_meet_in_a_store_of_the_program(kind):
    def program(rank):
        store = MAKERS[kind](rank)
        dist.init_process_group(store=store, rank=rank, world_size=3)
        x = torch.ones(2, device="sim") * rank
        dist.all_reduce(x)
        return x.tolist()

    assert sim.spawn(program, nprocs=3) == [[3, 3]] * 3


def test_a_hash_store_is_a_rank_s_own():
    def program(rank):
        store = dist.HashStore()
        store.set(f"{rank}", "x")
        return store.check([f"{1 - rank}"]), store.num_keys()

    assert sim.spawn(program, nprocs=2) == [(False, 1)] * 2


def test_afterwards_stores_are_pytorch_s():
    sim.spawn(lambda rank: dist.HashStore(), nprocs=1)
    for store in (TCPStore("localhost", 0, 1, is_master=True), dist.HashStore()):
        assert type(store).__module__ == "torch._C._distributed_c10d"
        store.set("key", "value")
        assert store.get("key") == b"value"


def test_values_that_are_compared_and_deleted(make):
    """As in PyTorch's stores: a missing key equals nothing that is expected."""

    def program(rank):
        store = make(rank)
        if rank:
            return None
        found = [store.compare_set("key", "other", "new"), store.check(["key"])]
        found += [store.compare_set("key", "", "new"), store.compare_set("key", "other", "newer")]
        found += [store.compare_set("key", "new", "newer"), store.get("key")]
        return [*found, store.delete_key("key"), store.delete_key("key")]

    found = sim.spawn(program, nprocs=2)[0]
    assert found == [b"other", False, b"new", b"new", b"newer", b"newer", True, False]
