"""The same program takes the same time: in five runs, on two threads, after an error."""

import itertools
import threading

import pytest
import torch
from support.programs.clock_programs import allreduce, spans

import simgpu as sim


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
            allreduce([p.grad for p in params])
            with torch.no_grad():
                for p in params:
                    p -= 0.1 * p.grad
        with side:
            nets[0][0].weight.detach().to("cpu", non_blocking=True)
    sim.synchronize()
    return sim.now(), sim.trace(), nets[-1][0].weight.detach().cpu()


@pytest.mark.slow
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
