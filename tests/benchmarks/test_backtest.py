"""Simulated times against published ones; every preset has the same efficiencies and overheads.

The published figures are those of the online editions of Dive into Deep Learning (Zhang et al.),
chapter on automatic parallelism: 50 products of 4000 x 4000 on either of two GPUs. Two constants
were chosen with such figures in view, the rate of pageable copies and the chunks of staged ones.
"""

import dataclasses

import pytest
import torch

from d2lmini import sim

PUBLISHED = {"v100": (0.48, 0.15), "rtx4090": (0.122, 0.20)}  # seconds, tolerance
PRODUCTS, SIZE = 50, 4000


def machine(gpu, k=2, link="pcie3"):
    """Build k devices and a matrix on each: ((n, n), ...)."""
    devices = sim.configure(k, gpu=gpu, link=link, numerics=False)
    return devices, [torch.empty(SIZE, SIZE, device=device) for device in devices]


def run(x):
    return [x @ x for _ in range(PRODUCTS)]


def seconds(devices, work, wait=sim.synchronize):
    """Simulated seconds of `work`, waiting for `devices` at both ends."""
    sim.synchronize()
    start = sim.now()
    kept = work()
    wait(*devices)
    elapsed = sim.now() - start
    del kept
    return elapsed


@pytest.mark.parametrize("gpu", PUBLISHED)
def test_fifty_products_take_the_published_time(gpu):
    devices, (x0, x1) = machine(gpu)
    published, tolerance = PUBLISHED[gpu]
    assert seconds(devices, lambda: run(x0)) == pytest.approx(published, rel=tolerance)
    assert seconds(devices, lambda: run(x1)) == pytest.approx(published, rel=tolerance)


def test_the_published_time_rejects_tf32_and_peak_rates():
    published, tolerance = PUBLISHED["rtx4090"]
    gpu = sim.GPUS["rtx4090"]
    at_peak = dataclasses.replace(gpu, compute_efficiency=1.0)
    for wrong, dtype in ((gpu, "bfloat16"), (at_peak, "float32")):
        seconds = PRODUCTS * wrong.seconds(2 * SIZE**3, 3 * 4 * SIZE**2, dtype)
        assert seconds != pytest.approx(published, rel=tolerance)


def both_over_one(gpu, wait=sim.synchronize):
    devices, (x0, x1) = machine(gpu)
    one = seconds(devices, lambda: run(x0))
    return seconds(devices, lambda: (run(x0), run(x1)), wait) / one


@pytest.mark.parametrize("gpu", PUBLISHED)
def test_both_devices_together_take_as_long_as_one(gpu):
    assert both_over_one(gpu) == pytest.approx(1, rel=0.10)


def test_the_check_sees_a_clock_that_waits_for_one_device_only():
    devices, (x0, x1) = machine("v100")
    one = seconds(devices, lambda: run(x0))
    wrong = seconds(devices, lambda: run(x1), wait=lambda *_: sim.synchronize(devices[0]))
    assert wrong < 0.01 * one


@pytest.mark.parametrize(("gpu", "link"), [("v100", "pcie3"), ("rtx4090", "pcie4_staged")])
def test_fifty_copies_to_the_host_are_near_the_published_times(gpu, link):
    """Published: 2.13 s for 3.2 GB, from which the rate is; 2.30 to 2.78 s in an older edition."""
    devices, (x0, _) = machine(gpu, link=link)
    results = run(x0)
    copying = seconds(devices, lambda: [y.cpu() for y in results])
    assert 0.8 * 2.13 < copying < 1.2 * 2.78


@pytest.mark.parametrize(("link", "low", "high"), [("pcie4", 20.0, 22.4), ("pcie5", 36.3, 38.9)])
def test_peer_copies_through_the_host_are_near_the_measured_rates(link, low, high):
    """Measured without peer access, GB/s: RTX 4090; RTX 5090, H100 (sources: `assumptions`)."""
    staged = dataclasses.replace(sim.LINKS[link], peer=False)
    (d0, d1), (x0, _) = machine("rtx4090", link=staged)
    elapsed = seconds([d0, d1], lambda: [x0.to(d1) for _ in range(10)])
    assert 0.9 * low < 10 * x0.nbytes / elapsed / 1e9 < 1.1 * high
    down, up = [next(s for s in sim.trace() if s.engine == way) for way in ("d2h", "h2d")]
    assert down.start < up.start < down.start + 0.1 * down.duration
    assert up.duration == down.duration
