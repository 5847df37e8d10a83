"""The simulated clock: who waits for whom, and what may overlap."""

import itertools

import pytest
import torch
from support.programs.clock_programs import LARGE, elapsed, overlap, settle, spans, square

import simgpu as sim


def test_two_devices_together_take_as_long_as_the_slower_one():
    d0, d1 = sim.configure(2, numerics=False)
    x0, x1 = square(d0), square(d1)

    def work(x, times):
        for _ in range(times):
            x @ x

    slow, fast = elapsed(lambda: work(x0, 20)), elapsed(lambda: work(x1, 10))
    both = elapsed(lambda: (work(x0, 20), work(x1, 10)))
    assert fast < slow
    assert both == pytest.approx(slow, rel=0.02)
    assert elapsed(lambda: (work(x0, 20), work(x0, 10))) == pytest.approx(slow + fast, rel=0.02)


def test_the_host_runs_ahead_until_it_waits():
    (device,) = sim.configure(1, numerics=False)
    x = square(device)
    settle()
    for _ in range(10):
        x @ x
    launched = sim.now()
    assert launched == pytest.approx(10 * sim.get_device_spec().launch_overhead)
    sim.synchronize(device)
    assert sim.now() > 50 * launched


def test_synchronize_waits_for_the_named_device_only():
    d0, d1 = sim.configure(2, numerics=False)
    x0, x1 = square(d0), square(d1)
    settle()
    x0 @ x0
    for _ in range(10):
        x1 @ x1
    sim.synchronize(d0)
    assert sim.now() == spans(device="sim:0", engine="compute")[-1].end
    first = sim.now()
    sim.synchronize(d1)
    assert sim.now() > 5 * first


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: repr(x),
        lambda x: bool(x[0, 0] > 0),
        lambda x: (x > 0).nonzero(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: x.unique(),
        lambda x: torch.equal(x, x),
        lambda x: torch.allclose(x, x),
    ],
)
def test_what_needs_a_value_waits_for_the_stream(wait):
    (device,) = sim.configure(1)
    x = torch.ones(16, 16, device=device)
    settle()
    for _ in range(200):
        x = x.clone()
    queue = sim.default_stream(device).end
    wait(x)
    assert sim.now() >= queue


def test_a_stream_never_overlaps_with_itself_nor_an_engine():
    d0, d1 = sim.configure(2, numerics=False)
    side = sim.Stream(d0)
    x = square(d0, 512)
    for i in range(20):
        with side if i % 3 == 0 else sim.default_stream(d0):
            y = x @ x
            if i % 2:
                y.to(d1).cpu()
            y.to("cpu", non_blocking=True)
    for key in ("stream", "engine"):
        lanes = {}
        for s in sim.trace():
            if s.device != "host":
                lanes.setdefault((s.device, getattr(s, key)), []).append(s)
        for lane in lanes.values():
            lane.sort(key=lambda s: s.start)
            assert all(a.end <= b.start + 1e-12 for a, b in itertools.pairwise(lane))


@pytest.mark.parametrize("side_stream", [False, True])
@pytest.mark.parametrize("pinned", [False, True])
def test_copies_overlap_with_kernels_only_on_a_side_stream_and_pinned(side_stream, pinned):
    (device,) = sim.configure(1, numerics=False)
    x, result = square(device), square(device)
    target = sim.empty_pinned(LARGE, LARGE) if pinned else torch.empty(LARGE, LARGE)
    stream = sim.Stream(device) if side_stream else sim.default_stream(device)
    settle()
    with stream:
        target.copy_(result, non_blocking=True)
    x @ x
    sim.synchronize()
    (copy,), (product,) = spans(engine="d2h"), spans(engine="compute")
    assert (overlap(copy, product) > 0) == (side_stream and pinned)


def test_to_host_without_blocking_runs_on_the_current_stream_at_the_pinned_rate():
    (device,) = sim.configure(1, numerics=False)
    link = sim.get_link_spec()
    x = square(device)
    settle()
    x.to("cpu", non_blocking=True)
    assert sim.now() == pytest.approx(sim.get_device_spec().launch_overhead)
    y = x @ x
    y.to("cpu")
    fast, slow = spans(engine="d2h")
    assert fast.duration == pytest.approx(link.host_seconds(x.nbytes, pinned=True, to_host=True))
    assert slow.duration == pytest.approx(link.host_seconds(x.nbytes, pinned=False, to_host=True))
    assert spans(engine="compute")[0].start >= fast.end
    assert sim.now() == slow.end


@pytest.mark.parametrize(
    ("pinned", "non_blocking", "waits"),
    [(False, False, True), (False, True, True), (True, False, True), (True, True, False)],
)
def test_who_waits_for_a_copy_to_the_device(pinned, non_blocking, waits):
    (device,) = sim.configure(1)
    source = torch.ones(1000, 1000)
    source = sim.pin_memory(source) if pinned else source
    source.to(device, non_blocking=non_blocking)
    (copy,) = spans(engine="h2d")
    expected = sim.get_link_spec().host_seconds(source.nbytes, pinned=pinned, to_host=False)
    assert copy.duration == pytest.approx(expected)
    assert (sim.now() == copy.end) == waits
