"""Lines of a program that need the clock, a stream or the memory see what came before them."""

import pytest
import torch
import torch.distributed as dist
from support.programs.clock_programs import PROMPT, elapsed, spans

import simgpu as sim
from simgpu.compiled.regions import Region
from simgpu.hardware.assumptions import COMPILED_CALL

N = 1024
SIZE = 4 * N * N


@pytest.fixture
def x():
    (device,) = sim.configure(1, gpu=PROMPT)
    x = torch.ones(N, N, device=device)
    elapsed(lambda: None)
    return x


def kernels():
    return [span.name for span in spans(engine="compute")]


def read_item(y):
    assert y[0, 0].item() == 4


def read_list(y):
    assert y[0, :2].tolist() == [4, 4]


def print_it(y):
    str(y)


def copy_it(y):
    y.to("cpu")


def wait(y):
    sim.synchronize()


def ask_for_the_time(y):
    assert sim.now() >= COMPILED_CALL


def ask_for_memory(y):
    assert sim.memory_allocated() == 2 * SIZE


def ask_for_the_peak(y):
    assert sim.max_memory_allocated() >= 2 * SIZE


def record_an_event(y):
    sim.Event().record()


READERS = [
    read_item, read_list, print_it, copy_it, wait, ask_for_the_time, ask_for_memory,
    ask_for_the_peak, record_an_event,
]  # fmt: skip


@pytest.mark.parametrize("reader", [*READERS, None])
def test_what_needs_the_device_ends_a_kernel(reader, x):
    """Without it, one kernel does both sides of the line."""

    def function(x):
        y = (x + 1) * 2
        if reader is not None:
            reader(y)
        return (y - 1).relu()

    region = Region(function)
    assert region(x)[0, 0].item() == 3
    fused = [name for name in kernels() if name.startswith("triton")]
    parts = sum(region.record.plans.values())
    assert parts == (1 if reader is None else 2)
    assert len(fused) == parts
    assert sum(region.record.breaks.values()) == parts - 1


def test_the_host_pays_a_call_for_each_graph(x):
    def function(x):
        for _ in range(3):
            x = x + 1
            x.sum().item()
        return x

    region = Region(function)
    kernels_alone = elapsed(lambda: [torch.relu(x).sum().item() for _ in range(3)])
    compiled = elapsed(lambda: region(x))
    assert compiled == pytest.approx(kernels_alone + 3 * COMPILED_CALL, rel=0.05)
    assert sum(region.record.plans.values()) == 3


def test_a_break_names_its_line(x):
    def function(x):
        y = x + 1
        y.sum().item()
        return y

    region = Region(function)
    for _ in range(2):
        region(x)
    line = function.__code__.co_firstlineno + 2
    assert region.record.breaks == {f"test_settling.py:{line}": 2}


def test_an_event_sees_what_was_issued_before_it(x):
    start, middle, end = (sim.Event(enable_timing=True) for _ in range(3))

    def function(x):
        y = x.sin()
        middle.record()
        return y.cos()

    start.record()
    Region(function)(x)
    end.record()
    sim.synchronize()
    sin, cos = [span for span in spans(engine="compute") if "fused" in span.name]
    assert start.elapsed_time(middle) == pytest.approx(1e3 * (COMPILED_CALL + sin.duration))
    assert middle.elapsed_time(end) == pytest.approx(1e3 * (cos.end - sin.end))


def test_each_stream_has_its_kernels(x):
    side = sim.Stream(x.device)

    def function(x):
        y = x + 1
        with side:
            z = x * 2
        sim.current_stream().wait_stream(side)
        return y + z

    assert Region(function)(x)[0, 0].item() == 4
    found = {span.name: span.stream for span in spans(engine="compute") if "fused" in span.name}
    assert found["triton_poi_fused_mul"] != found["triton_poi_fused_add"]


def test_a_collective_starts_after_what_it_sends():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        x = torch.ones(N, N, device=device)
        sim.synchronize()

        def function(x):
            y = (x + rank) * 2
            dist.all_reduce(y)
            return y - 1

        region = Region(function)
        y = region(x)
        sim.synchronize()
        assert not region.record.breaks  # compilers know collectives
        return y[0, 0].item()

    assert sim.spawn(program, nprocs=2) == [5, 5]
    for rank in range(2):
        own = spans(device=f"rank {rank} sim:{rank}")
        collective = next(s for s in own if s.engine == "comm")
        made = next(s for s in own if s.name == "triton_poi_fused_mul" or "add_mul" in s.name)
        read = next(s for s in own if s.name == "triton_poi_fused_sub")
        assert made.end <= collective.start
        assert collective.end <= read.start
