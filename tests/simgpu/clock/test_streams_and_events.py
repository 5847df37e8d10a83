"""Streams and events of simulated GPUs: what waits, and what events measure."""

import pytest
import torch
from support.programs.clock_programs import settle, spans, square

import simgpu as sim


def test_streams_wait_for_events_and_for_streams():
    (device,) = sim.configure(1, numerics=False)
    x = square(device)
    first, second = sim.Stream(device), sim.Stream(device)
    settle()
    with first:
        x @ x
    event = first.record_event()
    second.wait_event(event)
    with second:
        assert sim.current_stream(device) is second
        x.to("cpu", non_blocking=True)
    assert sim.current_stream(device) is sim.default_stream(device)
    first.wait_stream(second)
    with first:
        x + 1
    product, copied, added = (s for s in sim.trace() if s.device == "sim:0")
    assert product.end <= copied.start
    assert copied.end <= added.start
    assert (product.stream, copied.stream) == (1, 2)


def test_a_kernel_that_waits_does_not_hold_up_another_stream():
    (device,) = sim.configure(1, numerics=False)
    x = square(device)
    side = sim.Stream(device)
    settle()
    x.to("cpu", non_blocking=True)
    x + 1  # waits for the copy
    with side:
        x * 2  # does not
    waiting, ready = spans(engine="compute")
    assert ready.end <= waiting.start


def test_events_measure_time_on_the_device():
    (device,) = sim.configure(1, numerics=False)
    x = square(device)
    start, end = sim.Event(enable_timing=True), sim.Event(enable_timing=True)
    settle()
    start.record()
    x @ x
    end.record()
    assert not end.query()
    with pytest.raises(RuntimeError, match="synchronize"):
        start.elapsed_time(end)
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) == pytest.approx(1e3 * spans(engine="compute")[0].end)


def test_an_event_of_an_idle_stream_has_the_time_of_the_host():
    (device,) = sim.configure(1, numerics=False)
    x = square(device)
    settle()
    start, end = sim.Event(enable_timing=True), sim.Event(enable_timing=True)
    idle = sim.Stream(device)
    start.record(idle)
    before = sim.now()
    for _ in range(10):
        x + 1  # on another stream: the host takes its time to launch them
    passed = sim.now() - before
    end.record(idle)
    end.synchronize()
    assert passed > 0
    assert start.elapsed_time(end) == pytest.approx(1e3 * passed)


def test_asking_whether_work_is_done_costs_the_host_a_microsecond():
    (device,) = sim.configure(1, numerics=False)
    x = square(device)
    settle()
    x @ x
    event = sim.current_stream(device).record_event()
    before = sim.now()
    assert not any(event.query() or sim.current_stream(device).query() for _ in range(10))
    assert sim.now() - before == pytest.approx(20e-6)


def test_events_that_were_not_recorded():
    sim.configure(1)
    event = sim.Event(enable_timing=True)
    event.wait()  # as in CUDA: nothing to wait for
    event.synchronize()
    assert event.query()
    assert sim.now() == 0
    with pytest.raises(ValueError, match="must be recorded"):
        event.elapsed_time(event)
    with pytest.raises(ValueError, match="enable_timing=True"):
        sim.Event().elapsed_time(event)


def test_events_of_two_devices_measure_nothing():
    events = [sim.Event(enable_timing=True) for _ in sim.configure(2)]
    for i, event in enumerate(events):
        event.record(sim.current_stream(i))
        event.synchronize()
    with pytest.raises(RuntimeError, match=r"sim:0 and sim:1.*one device"):
        events[0].elapsed_time(events[1])


def test_an_event_stays_with_its_device():
    d0, d1 = sim.configure(2)
    event = sim.Event()
    event.record(sim.current_stream(d0))
    with pytest.raises(RuntimeError, match=r"sim:0.*sim:1"):
        event.record(sim.current_stream(d1))
    sim.current_stream(d1).wait_event(event)  # other devices may wait for it


def test_a_stream_of_another_device_changes_nothing_here():
    d0, d1 = sim.configure(2)
    x = torch.ones(4, device=d0)
    settle()
    with sim.Stream(d1):
        assert sim.current_device() == 1
        x + 1
    assert sim.current_device() == 0
    (span,) = spans(engine="compute")
    assert (span.device, span.stream) == ("sim:0", 0)


def test_a_stream_names_its_device_as_those_of_pytorch_do():
    """FSDP of PyTorch 2.15 asks for all three."""
    sim.configure(2)
    stream = sim.Stream("sim:1")
    number = torch._C._autograd.DeviceType.PrivateUse1.value
    assert (stream.stream_id, stream.device_index, stream.device_type) == (1, 1, number)
