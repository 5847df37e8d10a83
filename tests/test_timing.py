"""Timers wait for what they time."""

import time

import pytest
import torch

from d2lmini import Benchmark, Timer, gpus, sim


def products(device, count=10):
    x = torch.ones(4000, 4000, device=device)
    for _ in range(count):
        x @ x


def test_timer_sums_and_averages_what_it_recorded():
    timer = Timer()
    for _ in range(3):
        timer.start()
        time.sleep(0.001)
        assert timer.stop() >= 0.001
    assert timer.sum() == pytest.approx(sum(timer.times))
    assert timer.avg() == pytest.approx(timer.sum() / 3)
    assert timer.cumsum()[-1] == pytest.approx(timer.sum())
    assert timer.cumsum() == sorted(timer.cumsum())


def test_stop_without_start_is_an_error():
    timer = Timer()
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        timer.stop()
    timer.start()
    timer.stop()
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        timer.stop()


def test_average_of_nothing_is_an_error():
    with pytest.raises(RuntimeError, match="no time was recorded"):
        Timer().avg()


def test_benchmark_waits_for_all_devices_by_default(capsys):
    devices = gpus(2, gpu="v100", numerics=False)

    def uneven():  # waiting for the first device only would not be long enough
        products(devices[0], 10)
        products(devices[1], 20)

    with Benchmark("first device only", devices[:1]) as published:
        uneven()
    sim.synchronize()
    with Benchmark("both") as both:
        uneven()
    with Benchmark("one", devices) as one:
        products(devices[0], 10)
    assert 1.9 * one.seconds <= both.seconds <= 2.1 * one.seconds
    assert published.seconds < 1.1 * one.seconds


def test_benchmark_prints_description_and_marks_simulated_times(capsys):
    devices = gpus(1, gpu="v100", numerics=False)
    capsys.readouterr()
    with Benchmark("products", devices) as b:
        products(devices[0])
    assert capsys.readouterr().out == f"products: {b.seconds:.4f} sec (simulated)\n"
    with Benchmark("cpu", ["cpu"]) as b:
        pass
    assert capsys.readouterr().out == f"cpu: {b.seconds:.4f} sec\n"


def test_benchmark_of_a_failing_block_prints_nothing_and_lets_the_error_through(capsys):
    with pytest.raises(ZeroDivisionError), Benchmark("fails", ["cpu"]) as b:
        1 / 0  # noqa: B018
    assert capsys.readouterr().out == ""
    assert b.seconds is None


def test_benchmark_of_no_devices_is_an_error():
    with pytest.raises(ValueError, match="leave it out"):
        Benchmark("nothing", devices=[])
