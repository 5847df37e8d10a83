"""The simulated clock: what waits for what, what overlaps, and what that takes."""

import dataclasses
import itertools
import threading

import pytest
import torch
import torch.nn.functional as F

from d2lmini import sim

# Without launch overhead, what a formula says comes out exactly.
PROMPT = dataclasses.replace(sim.GPUS["v100"], launch_overhead=0.0)
LARGE = 2048  # a product of this size takes 1.5 ms on a V100, a launch 5 microseconds


def square(device, n=LARGE):
    return torch.ones(n, n, device=device)


def settle():
    """Wait for everything and start counting from 0."""
    sim.synchronize()
    sim.reset()


def spans(**wanted):
    return [
        s for s in sim.trace() if all(getattr(s, key) == value for key, value in wanted.items())
    ]


def elapsed(run):
    settle()
    run()
    sim.synchronize()
    return sim.now()


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


def test_a_product_takes_what_the_roofline_says():
    (device,) = sim.configure(1, gpu=PROMPT, numerics=False)
    x = square(device)
    took = elapsed(lambda: x @ x)
    flops, num_bytes = 2 * LARGE**3, 3 * 4 * LARGE**2
    assert took == pytest.approx(PROMPT.seconds(flops, num_bytes, "float32"), rel=1e-12)
    (span,) = spans(engine="compute")
    assert (span.name, span.flops, span.bytes) == ("mm", flops, num_bytes)


@pytest.mark.parametrize(
    ("run", "num_bytes"),
    [
        (lambda x: x + x, 3),
        (lambda x: x + 1, 2),
        (lambda x: x.add_(1), 2),
        (lambda x: x.fill_(1), 1),
        (lambda x: torch.zeros_like(x), 1),
        (lambda x: x.sum(), 1),
        (lambda x: x + x[:1], 2),
        (lambda x: x.relu(), 2),
    ],
)
def test_elementwise_operations_cost_the_bytes_they_touch(run, num_bytes):
    (device,) = sim.configure(1, numerics=False)
    x = square(device, 1024)
    settle()
    run(x)
    (span,) = spans(engine="compute")
    assert span.bytes == pytest.approx(num_bytes * x.nbytes, rel=0.002)
    assert span.flops == 0


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(-1), lambda x: x.t(), lambda x: x[0], lambda x: x[1:3, ::2],
        lambda x: x.expand(2, 8, 8), lambda x: x.detach(), lambda x: x.unsqueeze(0),
        lambda x: x.chunk(2), lambda x: x.reshape(4, 16), lambda x: torch.empty_like(x),
    ],
)  # fmt: skip
def test_views_cost_nothing(view):
    (device,) = sim.configure(1)
    x = torch.ones(8, 8, device=device)
    settle()
    view(x)
    assert sim.now() == 0
    assert sim.trace() == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_products_run_at_the_peak_of_their_type(dtype):
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    x = square(device).to(dtype)
    settle()
    x @ x
    (span,) = spans(engine="compute")
    spec = sim.get_device_spec(device)
    name = str(dtype).removeprefix("torch.")
    assert span.duration == pytest.approx(spec.seconds(span.flops, span.bytes, name), rel=1e-9)


def test_tensor_cores_round_float32_convolutions_but_not_products():
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    spec = sim.get_device_spec(device)
    image = torch.ones(64, 256, 32, 32, device=device, requires_grad=True)
    kernel = torch.ones(256, 256, 3, 3, device=device)
    x = square(device)

    def durations():
        settle()
        F.conv2d(image, kernel).sum().backward()
        x @ x
        return [s for s in sim.trace() if s.flops]

    def expected(span, peak):
        return pytest.approx(spec.seconds(span.flops, span.bytes, peak), rel=1e-9)

    forward, backward, product = durations()
    assert forward.duration == expected(forward, "tf32")
    assert backward.duration == expected(backward, "tf32")
    assert product.duration == expected(product, "float32")
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = False
        forward, _, product = durations()
        assert forward.duration == expected(forward, "float32")
        assert product.duration == expected(product, "tf32")
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = True


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


def overlap(first, second):
    return min(first.end, second.end) - max(first.start, second.start)


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


@pytest.mark.parametrize(
    "wait",
    [
        lambda d, event: sim.synchronize(),
        lambda d, event: sim.synchronize(d),
        lambda d, event: sim.current_stream(d).synchronize(),
        lambda d, event: event.synchronize(),
        lambda d, event: torch.ones(1, device=d).item(),
        lambda d, event: [None for _ in iter(event.query, True)],
    ],
)
def test_a_result_that_is_under_way_reads_as_nan_until_somebody_waits(wait):
    (device,) = sim.configure(1)
    x = torch.arange(6.0, device=device)
    buffer = sim.empty_pinned(6)
    copied = x.to("cpu", non_blocking=True)
    buffer.copy_(x, non_blocking=True)
    event = sim.current_stream(device).record_event()
    x += 1  # later work in the stream must not change what was copied before
    assert copied.isnan().all()
    assert buffer.isnan().all()
    torch.ones(3, 3) @ torch.ones(3, 3)  # host work alone waits for nothing
    assert copied.isnan().all()
    wait(device, event)
    assert copied.tolist() == buffer.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("dtype", "mark"),
    [
        (torch.int32, -(2**31)), (torch.int64, -(2**63)), (torch.uint8, 255), (torch.bool, True),
        (torch.int8, -128),
    ],
)  # fmt: skip
def test_integers_under_way_hold_a_mark(dtype, mark):
    (device,) = sim.configure(1)
    copied = torch.zeros(4, dtype=dtype, device=device).to("cpu", non_blocking=True)
    assert (copied == mark).all()
    sim.synchronize()
    assert (copied == 0).all()


def test_autograd_goes_through_a_copy_that_was_under_way():
    (device,) = sim.configure(1)
    x = torch.ones(3, device=device, requires_grad=True)
    y = (x * 2).to("cpu", non_blocking=True)
    z = y.sum()
    assert z.isnan()
    sim.synchronize()
    y.square().sum().backward()
    assert x.grad.tolist() == [8, 8, 8]


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


@pytest.mark.parametrize("link", ["nvlink2", "pcie4_staged"])
def test_peer_copies_wait_for_both_sides(link):
    d0, d1 = sim.configure(2, link=link, numerics=False)
    x0, x1 = square(d0), square(d1)
    spec = sim.get_link_spec()
    settle()
    x0 @ x0
    x1 @ x1
    x1 @ x1
    x0.to(d1)
    x0 + 1
    x1 + 1
    sim.synchronize()
    (copy,) = [s for s in sim.trace() if s.name == "copy sim:0 -> sim:1" and s.device != "host"]
    assert copy.start >= spans(device="sim:1", name="mm")[-1].end
    arrived = copy.start + spec.peer_seconds(x0.nbytes)
    for device in ("sim:0", "sim:1"):
        assert spans(device=device, name="add")[0].start == pytest.approx(arrived)
    assert copy.engine == ("p2p" if spec.peer else "d2h")
    assert len(spans(name="receive sim:0 -> sim:1", engine="h2d")) == (0 if spec.peer else 1)


def star_allreduce(data):
    """Sum on the first device, then send the result to all: 2 (k - 1) copies of everything."""
    for tensor in data[1:]:
        data[0] += tensor.to(data[0].device)
    for tensor in data[1:]:
        tensor.copy_(data[0])


def ring_allreduce(data, sends, receives):
    """k - 1 steps that add a k-th to the neighbour, k - 1 that pass the sums on."""
    k = len(data)
    parts = [tensor.chunk(k) for tensor in data]
    for step in range(2 * (k - 1)):
        for i in range(k):
            sends[i].wait_stream(receives[i])
        for i in range(k):
            j, part = (i + 1) % k, (i - step) % k
            with sends[i], receives[j]:
                if step < k - 1:
                    parts[j][part].add_(parts[i][part].to(data[j].device))
                else:
                    parts[j][part].copy_(parts[i][part])


@pytest.mark.parametrize("k", range(2, 17))
def test_allreduces_take_what_the_formulas_say(k):
    devices = sim.configure(k, gpu=PROMPT, link="nvlink2", numerics=False)
    link, n = sim.get_link_spec(), k * 2**22
    data = [torch.empty(n, device=d) for d in devices]

    def copy(size):
        return link.peer_seconds(4 * size)

    def add(size):
        return PROMPT.seconds(0, 3 * 4 * size, "float32")

    star = elapsed(lambda: star_allreduce(data))
    assert star == pytest.approx((k - 1) * (2 * copy(n) + add(n)), rel=1e-9)
    assert len(spans(engine="p2p")) == 2 * (k - 1)

    sends, receives = ([sim.Stream(d) for d in devices] for _ in range(2))
    ring = elapsed(lambda: ring_allreduce(data, sends, receives))
    assert ring == pytest.approx((k - 1) * (2 * copy(n // k) + add(n // k)), rel=1e-9)
    assert len(spans(engine="p2p")) == 2 * k * (k - 1)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_allreduces_sum(k):
    devices = sim.configure(k)
    for reduce in ("star", "ring"):
        data = [torch.arange(2.0 * k * k, device=d) * (i + 1) for i, d in enumerate(devices)]
        expected = sum(t.cpu() for t in data)
        if reduce == "star":
            star_allreduce(data)
        else:
            streams = [[sim.Stream(d) for d in devices] for _ in range(2)]
            for stream in streams[1]:
                stream.wait_stream(sim.default_stream(stream.device))
            ring_allreduce(data, *streams)
        assert all(torch.equal(t.cpu(), expected) for t in data)


def training(k=2, steps=2):
    """Run a small data-parallel training; returns everything that may differ between runs."""
    torch.manual_seed(0)
    devices = sim.configure(k)
    side = sim.Stream(devices[0])
    nets = []
    for device in devices:
        torch.manual_seed(0)
        nets.append(
            torch.nn.Sequential(
                torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                torch.nn.Dropout(0.5), torch.nn.Linear(4 * 26 * 26, 10),
            ).to(device)
        )  # fmt: skip
    for _ in range(steps):
        for net, device in zip(nets, devices, strict=True):
            net(torch.rand(8, 1, 28, 28, device=device)).square().mean().backward()
        for params in zip(*(net.parameters() for net in nets), strict=True):
            star_allreduce([p.grad for p in params])
            with torch.no_grad():
                for p in params:
                    p -= 0.1 * p.grad
        with side:
            nets[0][0].weight.detach().to("cpu", non_blocking=True)
    sim.synchronize()
    return sim.now(), sim.trace(), nets[-1][0].weight.detach().cpu()


def test_times_and_trace_are_equal_in_five_runs_and_on_one_or_two_threads():
    threads = torch.get_num_threads()
    try:
        runs = []
        for count in (1, 1, 1, 2, 2):
            torch.set_num_threads(count)
            runs.append(training())
    finally:
        torch.set_num_threads(threads)
    now, trace, _ = runs[0]
    assert len(trace) > 100
    assert all(run[0] == now and run[1] == trace for run in runs)  # equal to the last bit
    assert all(torch.equal(run[2], runs[0][2]) for run in runs[:3])


def test_shapes_alone_take_the_same_time():
    def run(numerics):
        (device,) = sim.configure(1, numerics=numerics)
        net = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)
        ).to(device)
        optimiser = torch.optim.Adam(net.parameters())
        for _ in range(2):
            net(torch.ones(32, 64, device=device)).square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()
        sim.synchronize()
        return sim.now(), sim.trace()

    assert run(True) == run(False)


def test_several_threads_share_one_machine_in_order_of_arrival():
    devices = sim.configure(4)
    barrier = threading.Barrier(4)

    def work(device):
        barrier.wait()
        x = torch.ones(8, 8, device=device, requires_grad=True)
        for _ in range(25):
            (x @ x).sum().backward()
        assert sim.current_stream(device) is sim.default_stream(device)

    threads = [threading.Thread(target=work, args=(d,)) for d in devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sim.synchronize()
    launches = spans(device="host", engine="launch")
    assert all(a.end <= b.start + 1e-12 for a, b in itertools.pairwise(launches))
    per_device = [len(spans(device=str(d), engine="compute")) for d in devices]
    assert len(set(per_device)) == 1
    assert sum(per_device) == len(launches)


def test_the_current_stream_belongs_to_a_thread():
    (device,) = sim.configure(1)
    seen = []
    with sim.Stream(device):
        thread = threading.Thread(target=lambda: seen.append(sim.current_stream(device)))
        thread.start()
        thread.join()
    assert seen == [sim.default_stream(device)]


def test_an_exception_during_backward_leaves_clock_and_memory_consistent():
    (device,) = sim.configure(1)
    x = torch.ones(100, device=device, requires_grad=True)
    before = sim.memory_allocated(device)

    def fail(_):
        raise KeyError("on purpose")

    y = x * 2
    y.register_hook(fail)
    with pytest.raises(KeyError):
        (y * 3).sum().backward()
    del y
    assert sim.memory_allocated(device) == before
    moment = sim.now()
    (x * 2).sum().backward()
    assert sim.now() > moment
    assert x.grad.tolist() == [2.0] * 100


def test_reset_keeps_tensors_and_starts_the_clock_again():
    (device,) = sim.configure(1)
    x = torch.ones(3, device=device)
    copied = x.to("cpu", non_blocking=True)
    sim.reset()
    assert (sim.now(), sim.trace()) == (0, [])
    assert copied.tolist() == [1, 1, 1]
    assert (x + 1).tolist() == [2, 2, 2]


def test_host_ops_keep_the_host_busy_while_a_device_works():
    (device,) = sim.configure(1, numerics=False)
    x, y = square(device), torch.ones(300, 300)
    settle()
    x @ x
    with sim.host_ops("laptop4"):
        y @ y
        y.t()
        torch.ones(10, device=device)
    y @ y  # outside: not charged
    (host,) = spans(engine="cpu")
    assert (host.name, host.flops) == ("mm", 2 * 300**3)
    cpu = sim.CPUS["laptop4"]
    assert host.duration == pytest.approx(cpu.seconds(host.flops, host.bytes, "float32"))
    assert overlap(host, spans(device="sim:0", name="mm")[0]) > 0


def test_host_ops_work_on_shapes_where_the_machine_does():
    (device,) = sim.configure(1, numerics=False)
    with sim.host_ops():
        x = torch.rand(20_000, 20_000)  # 1.6 GB if it were real
        y = (x @ x).relu_()
        y[0] += 1
        y.add_(torch.ones(20_000))
    assert y.shape == (20_000, 20_000)
    assert y.untyped_storage().nbytes() == 4
    assert y[5, 5].isnan()
    assert [s.name for s in spans(engine="cpu")].count("mm") == 1
    assert y.to(device).device == device


def test_copies_of_fifty_large_results_need_no_memory_on_shapes_alone():
    (device,) = sim.configure(1, numerics=False)
    x = torch.rand(4000, 4000, device=device)
    results = [x @ x for _ in range(50)]
    blocking = elapsed(lambda: [y.cpu() for y in results])
    copies = []
    free = elapsed(lambda: copies.extend(y.to("cpu", non_blocking=True) for y in results))
    assert free < blocking
    assert all(c.untyped_storage().nbytes() == 4 for c in copies)
