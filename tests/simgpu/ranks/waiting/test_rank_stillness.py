"""Ranks that stand still: a lock that a waiting rank holds ends the job; others are reported."""

import functools
import logging
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist

import simgpu as sim
from simgpu.ranks.process import stillness


class Communicates(logging.Handler):
    def emit(self, record):
        dist.barrier()


class Lazy:
    @functools.cached_property
    def total(self):
        dist.barrier()
        return 1


LOCK, REENTRANT = threading.Lock(), threading.RLock()


def of_the_caller(rank):
    with LOCK:
        dist.barrier()


def reentrant(rank):
    REENTRANT.acquire()
    dist.barrier()
    REENTRANT.release()


def handler(rank):
    Communicates.shared.handle(logging.makeLogRecord({}))


def cached(rank):
    return Lazy().total


@pytest.mark.parametrize("wait", [of_the_caller, reentrant, handler, cached])
def test_a_lock_that_a_waiting_rank_holds_ends_the_job(wait):
    if wait is cached and sys.version_info >= (3, 12):
        pytest.skip("no lock since Python 3.12")
    Communicates.shared = Communicates()

    def program(rank):
        dist.init_process_group()
        wait(rank)

    with pytest.raises(sim.RanksError, match=r"rank 1 waits for a lock \(.*\) that rank 0 holds"):
        sim.spawn(program, nprocs=2)


def test_a_lock_that_a_thread_of_the_program_releases_is_waited_for():
    def program(rank):
        lock = threading.Lock()
        lock.acquire()
        threading.Timer(2 * stillness.CERTAIN_AFTER, lock.release).start()
        with lock:
            return rank

    assert sim.spawn(program, nprocs=1) == [0]


def waiting(seconds, wait, monkeypatch, capfd):
    """Return what is printed while a rank waits, if reports come soon."""
    monkeypatch.setattr(stillness, "SAY_AFTER", 1.5)
    monkeypatch.setattr(stillness, "_PERIOD", 0.25)
    sim.spawn(lambda rank: wait(time.monotonic() + seconds), nprocs=1)
    return capfd.readouterr().err


def test_a_rank_that_stands_still_is_named_once(monkeypatch, capfd):
    printed = waiting(5, lambda _: time.sleep(5), monkeypatch, capfd)
    assert printed.count("nothing has moved for") == 1
    assert "rank 0 stands at test_rank_stillness.py:" in printed


def compute(end):
    x = torch.ones(300, 300)
    while time.monotonic() < end:
        x @ x


def one_line(end):
    sum(1 for _ in iter(lambda: time.monotonic() < end, False))


def in_a_thread(end):
    thread = threading.Thread(target=one_line, args=(end,))
    thread.start()
    while thread.is_alive():
        thread.join(10)


@pytest.mark.parametrize("wait", [compute, one_line, in_a_thread])
def test_a_rank_that_computes_is_not_reported(wait, monkeypatch, capfd):
    assert waiting(5, wait, monkeypatch, capfd) == ""


def test_frames_of_ranks_that_compute_are_left_alone(monkeypatch):
    """Who holds a frame keeps its tensors: peaks of memory would depend on the moment."""
    monkeypatch.setattr(stillness, "_PERIOD", 0.05)
    monkeypatch.setattr(sys, "_current_frames", lambda: pytest.fail("asked for frames"))
    sim.spawn(lambda rank: compute(time.monotonic() + 2 * stillness.CERTAIN_AFTER), nprocs=1)
