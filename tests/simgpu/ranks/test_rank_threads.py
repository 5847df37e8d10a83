"""Differences between threads and processes: ranks work as in processes, or fail with a reason."""

import datetime
import queue
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.pool import ThreadPool

import pytest
import torch
import torch.distributed as dist

import simgpu as sim


@pytest.mark.parametrize("call", ["all_reduce", "send", "get_rank"])
def test_an_object_of_the_caller_with_the_group_of_another_rank(call):
    kept = []

    def program(rank):
        dist.init_process_group()
        for ranks in ([0, 1], [2, 3]):
            group = dist.new_group(ranks)
            if rank in ranks:
                kept[:] = [group]
        dist.barrier()
        x = torch.ones(1, device="sim")
        if call == "send":
            dist.send(x, group=kept[0], group_dst=0)
        else:
            dist.all_reduce(x, group=kept[0]) if call == "all_reduce" else dist.get_rank(kept[0])

    with pytest.raises(sim.RanksError, match=r"rank 0 .* a group that rank 3 has made.*caller"):
        sim.spawn(program, nprocs=4)


def test_the_store_of_the_ranks():
    def program(rank):
        dist.init_process_group()
        store = dist.distributed_c10d._get_default_store()
        store.set(f"from {rank}", str(rank))
        store.wait(["from 0", "from 1", "from 2"], datetime.timedelta(seconds=5))
        store.add("counter", rank)
        dist.barrier()
        found = [
            store.get("from 2"), store.add("counter", 0), store.check(["from 0", "elsewhere"]),
            store.compare_set("first", "", str(rank)), store.multi_get(["from 0", "from 1"]),
        ]  # fmt: skip
        dist.barrier()
        return [*found, store.delete_key("first"), store.num_keys() > 3]

    out = sim.spawn(program, nprocs=3)
    first = out[0][3]  # any rank may be the first
    assert first in (b"0", b"1", b"2")
    assert all(found[:5] == [b"2", 3, False, first, [b"0", b"1"]] for found in out)
    assert [found[5] for found in out].count(True) == 1
    assert all(found[6] for found in out)


def test_a_group_is_destroyed_and_the_others_go_on():
    def program(rank):
        dist.init_process_group()
        x = torch.ones(1, device="sim")
        pair = dist.new_group([0, 1])
        if rank < 2:
            dist.all_reduce(x, group=pair)
            dist.destroy_process_group(pair)
        dist.all_reduce(x)
        dist.destroy_process_group()
        return x.item()

    assert sim.spawn(program, nprocs=3) == [5.0] * 3


def test_the_thread_of_a_rank_is_the_main_thread():
    def program(rank):
        found = []
        other = threading.Thread(target=lambda: found.append(threading.main_thread()))
        other.start()
        other.join()
        here = threading.current_thread()
        return here is threading.main_thread(), here.name, found == [here]

    assert sim.spawn(program, nprocs=2) == [(True, "MainThread", True)] * 2
    assert threading.main_thread() is threading.current_thread()


def test_ranks_wait_for_each_other_by_the_means_of_threading():
    event, items, barrier = threading.Event(), queue.Queue(), threading.Barrier(3)

    def program(rank):
        dist.init_process_group()
        if rank == 0:
            assert event.wait()
            got = items.get(), items.get()
        else:
            dist.barrier(dist.new_group([1, 2], use_local_synchronization=True))
            items.put(rank)
            event.set()
            got = None
        barrier.wait()
        x = torch.ones(1, device="sim")
        dist.all_reduce(x)
        return got, x.item()

    assert sim.spawn(program, nprocs=3) == [((1, 2), 3), (None, 3), (None, 3)]


def test_a_rank_waits_for_a_thread_of_its_own():
    def program(rank):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: (time.sleep(0.05), rank)).result()

    assert [value for _, value in sim.spawn(program, nprocs=2)] == [0, 1]


def in_a_thread(call, *args):
    thread = threading.Thread(target=call, args=args, name="sender")
    thread.start()
    thread.join()


def test_a_thread_communicates_while_its_rank_waits_for_it():
    def program(rank):
        dist.init_process_group()
        x = torch.ones(2, device="sim")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(dist.all_reduce, x).result()
        if rank == 1:
            in_a_thread(dist.all_reduce, x)
        else:
            dist.all_reduce(x)
        return x.tolist()

    assert sim.spawn(program, nprocs=3) == [[9.0, 9.0]] * 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_communicates_while_another_rank_runs_is_named():
    """That of rank 1 is told to go on by rank 0, which runs."""
    begin = threading.Event()

    def send(x, done):
        begin.wait()
        try:
            dist.all_reduce(x)
        finally:
            done.set()

    def program(rank):
        dist.init_process_group()
        x = torch.ones(2, device="sim")
        if rank == 1:
            threading.Thread(target=send, args=(x, ended), name="sender").start()
            dist.barrier()
        else:
            dist.barrier()
            begin.set()
            while not ended.is_set():
                time.sleep(0.001)
        dist.barrier()

    ended = threading.Event()
    with pytest.raises(sim.RanksError) as caught:
        sim.spawn(program, nprocs=2)
    text = str(caught.value)
    assert "thread 'sender' of rank 1 communicates (test_rank_threads.py:" in text
    assert "while rank 0 runs" in text


def two_threads(rank, waits):
    """Issue a collective in a thread, and another meanwhile, or when the thread waits or ends."""
    dist.init_process_group()
    x, y = torch.ones(2, device="sim"), torch.ones(2, device="sim")
    y = y.cpu() if waits == "on the host" else y
    group = dist.new_group() if waits == "by another group" else None
    called, go_on, works = queue.Queue(), threading.Event(), []

    def count():
        works.append(dist.all_reduce(y, group=group, async_op=True))
        if waits == "it notifies":
            called.put(True)
        until = time.monotonic() + 0.5
        while waits != "it ends" and time.monotonic() < until:
            go_on.wait() if waits == "it waits" else time.sleep(0.001)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if waits == "it begins later":
            works.append(dist.all_reduce(x, async_op=True))
        thread = threading.Thread(target=count, name="counter")
        thread.start()
        if waits == "it notifies":
            called.get()
        time.sleep(0.1)  # nothing but luck: the thread may call later
        if waits != "it begins later":
            works.append(dist.all_reduce(x, async_op=True))
        go_on.set()
        thread.join()
    for work in works:
        work.wait()
    return x.tolist() + y.tolist(), [str(w.message) for w in caught if "at once" in str(w.message)]


@pytest.mark.parametrize(
    "waits",
    [
        "",
        "it ends",
        "it waits",
        "it notifies",
        "it begins later",
        "by another group",
        "on the host",
    ],
)
def test_two_threads_that_communicate_at_once_in_a_group_are_named(waits):
    values, texts = zip(*sim.spawn(two_threads, (waits,), nprocs=2), strict=True)
    assert values == ([2.0] * 4,) * 2
    for rank, found in enumerate(texts):
        assert len(found) == (not waits)
        for text in found:
            assert f"two threads of rank {rank} communicate at once in one group: " in text
            assert "calls all_reduce (test_rank_threads.py:" in text
            assert "while 'counter', which called before it, is at test_rank_threads.py:" in text


def handed_over(rank, make):
    """Issue a collective, and then another one in a thread to which that is handed over."""
    dist.init_process_group()
    x, y = torch.ones(2, device="sim"), torch.ones(2, device="sim")
    with warnings.catch_warnings(record=True) as caught, make() as pool:
        warnings.simplefilter("always")
        hand_over = getattr(pool, "submit", None) or (lambda f, *a: pool.apply_async(f, a))
        result = "result" if hasattr(pool, "submit") else "get"
        getattr(hand_over(int), result)()  # its thread begins
        dist.all_reduce(x)
        done = hand_over(dist.all_reduce, y)
        time.sleep(0.1)
        getattr(done, result)()
    return x.tolist() + y.tolist(), [str(w.message) for w in caught if "at once" in str(w.message)]


@pytest.mark.parametrize("make", [ThreadPoolExecutor, ThreadPool])
def test_an_executor_that_communicates_in_its_turn_is_not_named(make):
    values, texts = zip(*sim.spawn(handed_over, (partial(make, 1),), nprocs=2), strict=True)
    assert values == ([2.0] * 4,) * 2
    assert texts == ([], [])


def test_an_event_that_nobody_sets():
    event = threading.Event()

    def program(rank, timeout):
        dist.init_process_group()
        if rank == 0:
            assert not event.wait(timeout)
        dist.barrier()

    with pytest.raises(sim.RanksError) as error:
        sim.spawn(program, (None,), nprocs=2)
    assert "rank 0 waits for an Event, a Queue or the like of threading (test_rank" in str(error)
    assert "rank 1 waits in barrier" in str(error)
    began = time.monotonic()
    sim.spawn(program, (60.0,), nprocs=2)  # nobody is left who could set it
    assert time.monotonic() - began < 30


@pytest.mark.exhaustive
def test_ranks_hand_over_whenever_python_switches_threads():
    """A rank may be made the running one before it has begun to wait for that."""

    def program(rank):
        dist.init_process_group()
        x = torch.ones(4, device=torch.accelerator.current_accelerator())
        for _ in range(1500):
            dist.all_reduce(x)
            x.sum().item()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        sim.spawn(program, nprocs=2)
    finally:
        sys.setswitchinterval(interval)
