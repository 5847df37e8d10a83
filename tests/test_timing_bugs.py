"""Wrong timings that have been published for these experiments, and what gives them away.

The relations are the ones that the automatic-parallelism chapter asserts. Each is shown to hold
for a correct measurement and to fail for the wrong one.
"""

import pytest
import torch

from d2lmini import Benchmark, Stream, Timer, current_stream, now, record, sim, synchronize

N, REPEATS = 4000, 20
FLOPS = REPEATS * 2 * N**3


@pytest.fixture
def devices():
    return sim.configure(2, numerics=False)


def load(devices):
    """Return a program that keeps each of the devices busy with the same work."""
    xs = [torch.rand(N, N, device=device) for device in devices]
    return lambda: [[x @ x for _ in range(REPEATS)] for x in xs]


def with_timer(program, devices):
    timer = Timer(*devices)
    timer.start()
    program()
    return timer.stop()


def with_benchmark(program, devices):
    with Benchmark("program") as benchmark:
        program()
    return benchmark.seconds


def without_waiting(program, devices):
    """Bug 5: what is measured is the launching."""
    start = now(*devices)
    program()
    return now(*devices) - start


def waiting_for_the_first(program, devices):
    """Bug 4: `synchronize()` without a device waits for the current one."""
    start = now(*devices)
    program()
    synchronize("sim:0")
    return now(*devices) - start


def check_stopwatch(stopwatch, devices):
    """No device is faster than its peak, and together they are as fast as the slower one."""
    peak = sim.get_device_spec(devices[0]).flops["float32"]
    alone = []
    for device in devices:
        alone.append(stopwatch(load([device]), [device]))
        synchronize()
        rate = FLOPS / alone[-1]
        assert rate <= peak, f"{device}: {rate:.3g} FLOP/s are above the peak {peak:.3g}"
    both = stopwatch(load(devices), devices)
    synchronize()
    assert 0.9 * max(alone) <= both <= 1.1 * max(alone)


@pytest.mark.parametrize("stopwatch", [with_timer, with_benchmark])
def test_correct_timing_is_accepted(stopwatch, devices):
    check_stopwatch(stopwatch, devices)


def test_bug_4_waiting_for_one_device_is_rejected(devices):
    with pytest.raises(AssertionError, match=r"sim:1.*above the peak"):
        check_stopwatch(waiting_for_the_first, devices)


def test_bug_4_is_right_by_luck_for_equal_work(devices):
    """Why it went unnoticed: device 1 happens to be done when device 0 is."""
    program = load(devices)
    lucky = waiting_for_the_first(program, devices)
    synchronize()
    assert lucky == pytest.approx(with_timer(program, devices), rel=0.01)


def test_bug_4_misses_the_device_with_more_work(devices):
    few, many = load(devices[:1]), load(devices[1:])

    def program():
        few()
        for _ in range(3):
            many()

    wrong = waiting_for_the_first(program, devices)
    synchronize()
    assert wrong < 0.5 * with_timer(program, devices)


def test_bug_5_measuring_the_launches_is_rejected(devices):
    with pytest.raises(AssertionError, match=r"sim:0.*above the peak"):
        check_stopwatch(without_waiting, devices)


def test_bug_5_counts_launches_only(devices):
    spec = sim.get_device_spec(devices[0])
    launching = without_waiting(load(devices[:1]), devices)
    assert launching == pytest.approx(REPEATS * spec.launch_overhead)


def test_bug_5_default_benchmark_waits_for_every_device(devices):
    """Work on a device that is not named must not end up in the next measurement."""
    load(devices[1:])()
    with Benchmark("nothing") as benchmark:
        pass
    assert benchmark.seconds == 0


# ---- bug 6: overlap claimed from non_blocking=True alone


def copy_after(x, buffers, side):
    """Bug 6, as it was published: all products, then all copies, in one stream."""
    ys = [x @ x for _ in buffers]
    for y, buffer in zip(ys, buffers, strict=True):
        buffer.copy_(y, non_blocking=True)


def copy_in_turn(x, buffers, side):
    """Bug 6 again: launching each copy behind its product changes nothing."""
    for buffer in buffers:
        buffer.copy_(x @ x, non_blocking=True)


def copy_beside(x, buffers, side, wait=True):
    main, keep = current_stream(x.device), []
    for buffer in buffers:
        keep.append(x @ x)
        if wait:
            side.wait_event(main.record_event())
        with side:
            buffer.copy_(keep[-1], non_blocking=True)


def copy_unordered(x, buffers, side):
    """Wrong the other way round: the copies do not wait for their products."""
    copy_beside(x, buffers, side, wait=False)


def check_overlap_claim(run_and_copy, device):
    """Combined time: as long as the longer part, one copy on top; never shorter than a part."""
    x, side = torch.rand(N, N, device=device), Stream(device)
    buffers = [sim.empty_pinned(N, N) for _ in range(5)]
    run = with_timer(lambda: [x @ x for _ in buffers], [device])
    y = x @ x
    copy = with_timer(lambda: [b.copy_(y, non_blocking=True) for b in buffers], [device])
    with record(device) as recording:
        both = with_timer(lambda: run_and_copy(x, buffers, side), [device])
    assert both <= 1.1 * max(run, copy) + copy / len(buffers), "nothing overlaps"
    lanes = recording.timeline.lanes()
    kernels, copies = lanes[str(device), "compute"], lanes[str(device), "d2h"]
    for kernel, transfer in zip(kernels, copies, strict=True):
        assert transfer.start >= kernel.end, "a copy started before its product was done"


def test_overlap_with_a_side_stream_and_events_is_accepted(devices):
    check_overlap_claim(copy_beside, devices[0])


@pytest.mark.parametrize("wrong", [copy_after, copy_in_turn])
def test_bug_6_non_blocking_alone_is_rejected(wrong, devices):
    with pytest.raises(AssertionError, match="nothing overlaps"):
        check_overlap_claim(wrong, devices[0])


def test_bug_6_copies_that_do_not_wait_are_rejected(devices):
    with pytest.raises(AssertionError, match="before its product"):
        check_overlap_claim(copy_unordered, devices[0])


def test_bug_6_unlike_parts_make_combined_shorter_than_copy_alone(devices):
    """How print got 'combined' below 'copy alone': ordinary memory alone, pinned together."""
    (device, _), count = devices, 5
    x = torch.rand(N, N, device=device)
    ys = [x @ x for _ in range(count)]
    alone = with_timer(lambda: [y.cpu() for y in ys], [device])
    together = with_timer(
        lambda: [(x @ x).to("cpu", non_blocking=True) for _ in range(count)], [device]
    )
    assert together < alone
