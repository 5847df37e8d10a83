"""When batches are ready in simulated time, and what is measured of them."""

import time

import pytest

from simgpu.run.loader.choice import parse
from simgpu.run.loader.stopwatch import Stopwatch
from simgpu.run.loader.supply import Supply

BATCH = 0.02  # seconds that a batch takes


def wait_in_steady_state(workers, step, prefetch=2):
    """Return the mean wait for a batch, after those that were made ahead are used up."""
    supply, now, waited = Supply(0.0, workers * prefetch), 0.0, []
    for i in range(400):
        _, made = supply.make(now, BATCH, i % workers, i)
        waited.append(max(made - now, 0.0))
        now = max(made, now)
        supply.take(now)
        now += step
    return sum(waited[-200:]) / 200


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("step", [0.0, 0.001, 0.004, 0.006, 0.012, 0.03])
def test_the_wait_is_what_the_step_leaves_of_the_interval(workers, step):
    expected = max(BATCH / workers - step, 0.0)
    assert wait_in_steady_state(workers, step) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("depth", [2, 6])
def test_a_loader_is_at_most_its_depth_ahead(depth):
    supply = Supply(0.0, depth)
    late = 1000.0  # the GPUs do something else until then
    ready = []
    for i in range(depth + 2):
        _, made = supply.make(late, BATCH, i % 2, i)
        ready.append(made)
        supply.take(late)
    assert max(ready[:depth]) == pytest.approx(depth / 2 * BATCH)
    assert ready[depth:] == pytest.approx([late + BATCH] * 2)


def test_a_worker_that_starts_slowly_delays_its_own_batches():
    supply = Supply(1.0, 4)
    made = [supply.make(1.0, BATCH, i % 2, i, start_up=5.0 * (i == 0))[1] for i in range(4)]
    assert made == pytest.approx([6 + BATCH, 1 + BATCH, 6 + 2 * BATCH, 1 + 2 * BATCH])


def test_one_thread_pins_all_batches():
    supply = Supply(0.0, 4)
    assert [supply.pin(1.0, 0.5) for _ in range(3)] == [1.5, 2.0, 2.5]
    assert supply.pin(9.0, 0.5) == 9.5


def test_a_stopwatch_counts_waiting_for_data_but_not_for_other_ranks():
    away = [0.0]
    watch = Stopwatch(lambda: away[0])
    time.sleep(0.05)
    assert watch.read() >= 0.045
    assert watch.computed() < 0.045
    away[0] = 10.0
    assert 0 <= watch.read() < 0.045


def test_a_stopwatch_leaves_out_the_time_of_other_programs(monkeypatch):
    monkeypatch.setattr("simgpu.run.loader.stopwatch._waited", lambda: time.perf_counter())
    watch = Stopwatch()
    time.sleep(0.05)
    assert watch.read() < 0.01  # the thread could have run all the time, and had no core


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, (True, False, None)),
        ("off", (False, False, None)),
        ("measured", (True, True, None)),
        ("0.8ms", (False, True, 0.0008)),
        ("20 us", (False, True, 2e-5)),
        ("2s", (False, True, 2.0)),
    ],
)
def test_choices(text, expected):
    found = parse(text)
    assert (found.watches, found.counts) == expected[:2]
    assert found.seconds == pytest.approx(expected[2])
