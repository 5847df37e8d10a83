"""The clock that a script reads is that of its simulated host."""

import json
import time
import timeit

import pytest

from simgpu.run import simulated_time

START = """
import os, sys, time, timeit, torch
import torch.distributed as dist
from time import perf_counter, sleep
device = torch.accelerator.current_accelerator()
rank = int(os.environ["RANK"])
"""
SETUP = f"""{START}
dist.init_process_group()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4096, 4096).to(device))
optimizer = torch.optim.SGD(model.parameters())
tokens = 8192

def train():
    loss = model(torch.ones(tokens, 4096, device=device)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
"""


@pytest.fixture
def simulate(simgpu_run):
    """Run a script on two ranks; return the lines that it prints, and the summary."""

    def run(source, *options):
        options = "--nproc-per-node", "2", "--shapes-only", "--summary", "json", *options
        code, out, err = simgpu_run(source, *options)
        assert code == 0, err
        *lines, summary = out.splitlines()
        return lines, json.loads(summary)

    return run


def test_a_step_takes_as_long_by_the_clock_by_events_and_in_the_summary(simulate):
    source = f"""{SETUP}
for _ in range(4):
    begin, end = (torch.Event(device, enable_timing=True) for _ in range(2))
    torch.accelerator.synchronize()
    start = perf_counter()
    begin.record()
    train()
    end.record()
    torch.accelerator.synchronize()
    seconds = perf_counter() - start
print(seconds, begin.elapsed_time(end) / 1e3)
"""
    lines, summary = simulate(source)
    step = summary["step_time_seconds"]
    assert len(lines) == 2
    for line in lines:
        by_clock, by_events = map(float, line.split())
        assert by_clock == pytest.approx(step, rel=0.01)
        assert by_events == pytest.approx(step, rel=0.01)


def test_tokens_a_second_are_those_of_the_simulated_step(simulate):
    source = f"""{SETUP}
before = time.time()
for step in range(5):
    loss = train()
    loss.item()
    now = time.time()
    rate, before = tokens / (now - before), now
print(rate)
"""
    lines, summary = simulate(source)
    for line in lines:
        assert float(line) == pytest.approx(8192 / summary["step_time_seconds"], rel=1e-3)


def test_reading_the_clock_does_not_wait_for_the_device(simulate):
    source = f"""{START}
x = torch.ones(8192, 8192, device=device)
torch.accelerator.synchronize()
times = [perf_counter()]
for _ in range(5):
    x = x @ x
times.append(perf_counter())
torch.accelerator.synchronize()
times.append(perf_counter())
print(times[1] - times[0], times[2] - times[1])
"""
    for line in simulate(source)[0]:
        launching, waiting = map(float, line.split())
        assert 0 < launching < 100e-6
        assert waiting > 100 * launching


def test_all_ranks_read_one_time_after_a_barrier(simulate):
    source = f"""{SETUP}
for _ in range(rank + 1):
    train.__globals__["model"].module(torch.ones(9, 4096, device=device))
sleep(rank)
early = perf_counter()
dist.barrier()
torch.accelerator.synchronize()
print(early, perf_counter(), time.time(), time.monotonic_ns())
"""
    early, late = zip(*(line.split(" ", 1) for line in simulate(source)[0]), strict=True)
    assert len(set(early)) == 2
    assert len(set(late)) == 1


def test_all_clocks_tell_the_same_time(simulate):
    source = f"""{START}
began = time.time()
sleep(1000)
(torch.ones(9, device=device) * 2).sum().item()
now = perf_counter()
assert now == time.monotonic() == timeit.default_timer()
assert round(now * 1e9) == time.perf_counter_ns() == time.monotonic_ns()
assert abs(time.time() - began - now) < 1e-6
assert abs(time.time_ns() / 1e9 - time.time()) < 1e-6
print(now, began)
"""
    before = time.time()
    lines, _ = simulate(source)
    assert time.time() - before < 60
    for line in lines:
        now, began = map(float, line.split())
        assert 1000 < now < 1001
        assert before - 1 <= began <= time.time()


def test_python_and_torch_keep_the_real_clock(simulate, tmp_path):
    (tmp_path / "library.py").write_text("from time import time\ndef now():\n    return time()\n")
    source = f"""{START}
import library, logging, queue, threading
sleep(1e6)
real = logging.makeLogRecord({{}}).created
assert abs(library.now() - real - 1e6) < 1000
try:
    queue.Queue().get(timeout=0.05)
except queue.Empty:
    pass
done = threading.Event()
assert not done.wait(0.05)
thread = threading.Thread(target=sleep, args=(0.05,))
thread.start()
thread.join()
assert 0.09 < logging.makeLogRecord({{}}).created - real < 1000  # the simulated one: 1e6 later
assert perf_counter() == 1e6
(torch.ones(9, device=device) * 2)
"""
    simulate(source)


def test_a_rank_that_sleeps_lets_the_others_go_on(simulate, tmp_path):
    source = f"""{START}
file = {str(tmp_path / "ready")!r}
(torch.ones(9, device=device) * 2)
if rank == 0:
    while not os.path.exists(file):
        sleep(0.5)
else:
    open(file, "w").close()
print(rank, perf_counter() >= 0.5)
"""
    assert simulate(source)[0] == ["1 False", "0 True"]


def test_a_program_that_polls_the_clock_goes_on(simulate, monkeypatch):
    monkeypatch.setattr(simulated_time, "MANY", 100)
    source = f"""{START}
(torch.ones(9, device=device) * 2)
start, readings = perf_counter(), 1
while perf_counter() < start + 1e-4:
    readings += 1
print(readings)
"""
    assert all(abs(int(line) - 200) <= 2 for line in simulate(source)[0])


@pytest.mark.parametrize("seconds", [0, 0.02])
@pytest.mark.parametrize("in_thread", [False, True])
def test_polling_with_a_time_limit_ends(simulate, seconds, in_thread, monkeypatch):
    monkeypatch.setattr(simulated_time, "MANY", 100)
    source = f"""{START}
import selectors, threading
read, write = os.pipe()
def wait(timeout):
    with selectors.SelectSelector() as selector:
        selector.register(read, selectors.EVENT_READ)
        deadline, turns = time.monotonic() + timeout, 0
        while not selector.select(timeout):
            timeout, turns = deadline - time.monotonic(), turns + 1
            if timeout < 0 or turns > 2000:
                return "in time" if turns <= 2000 else "never"
(torch.ones(9, device=device) * 2)
if {in_thread}:
    thread = threading.Thread(target=lambda: print(wait({seconds})))
    thread.start()
    thread.join()
else:
    print(wait({seconds}))
"""
    assert simulate(source)[0] == ["in time"] * 2


def test_a_rank_that_polls_measures_its_gpu_by_the_simulated_clock(simulate):
    source = f"""{START}
import select
def measure():
    torch.accelerator.synchronize()
    start = perf_counter()
    (torch.ones(4096, 4096, device=device) @ torch.ones(4096, 4096, device=device))
    torch.accelerator.synchronize()
    return perf_counter() - start
before = [measure() for _ in range(2)][-1]
for _ in range(8):
    start = perf_counter()
    select.select([], [], [], 0.02)
assert start > 0.04
print(abs(measure() - before) < 1e-7)
"""
    assert simulate(source)[0] == ["True"] * 2


def test_packages_for_processes_keep_the_real_clock(simulate, tmp_path, monkeypatch):
    package = tmp_path / "multiprocess"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "pool.py").write_text(
        "import time\ndef wait(seconds):\n    start = time.time()\n    time.sleep(seconds)\n"
        "    return time.time() - start\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    source = f"""{START}
(torch.ones(9, device=device) * 2)
from multiprocess.pool import wait
start = perf_counter()
print(0.05 <= wait(0.05) < 60, perf_counter() - start < 0.01)
"""
    assert simulate(source)[0] == ["True True"] * 2


def test_sleep_checks_its_argument(simulate):
    source = f"""{START}
(torch.ones(9, device=device) * 2)
try:
    sleep(-1)
except ValueError as error:
    print(error)
"""
    with pytest.raises(ValueError, match="sleep") as real:
        time.sleep(-1)
    assert simulate(source)[0] == [str(real.value)] * 2


def test_the_real_clock_on_request(simgpu_run):
    source = f"{START}x = torch.ones(9, device=device) * 2\nsleep(0.05)\nprint(time.time())\n"
    before = time.time()
    code, out, err = simgpu_run(source, "--wall-clock", "--shapes-only")
    assert (code, err) == (0, "")
    assert before + 0.05 <= float(out.splitlines()[0]) <= time.time()


def test_the_functions_are_put_back(simulate):
    before = [time.time, time.perf_counter, time.sleep, time.time_ns, timeit.default_timer]
    simulate(f"{START}assert time.time.__wrapped__\n(torch.ones(9, device=device) * 2)\n")
    assert before == [time.time, time.perf_counter, time.sleep, time.time_ns, timeit.default_timer]
