"""Where the time of a run went, for programs whose times follow from a few numbers."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

import simgpu as sim
from simgpu.clock.current import state
from simgpu.clock.trace import WAIT_FOR_BATCH
from simgpu.hardware.validation import DTYPES
from simgpu.network import build_cluster
from simgpu.run.causes.shares import CAUSES, CAUSES_WITH_INPUT, shares
from simgpu.run.steps import Steps
from simgpu.run.summary import summarize

RATE, BANDWIDTH = 1e12, 1e11  # FLOP/s and bytes/s, which kernels reach here
STEPS = 4


@pytest.fixture(autouse=True)
def no_machine_before(monkeypatch):
    """Keep the machine of the ranks in use, as in the launcher's own process."""
    monkeypatch.setattr(state, "machine", None)


def plain_gpu(**overheads):
    overheads = {"launch_overhead": 0.0, "kernel_overhead": 0.0, **overheads}
    peaks = dict.fromkeys(DTYPES, 2 * RATE)
    return sim.GPU(
        "plain", peaks, BANDWIDTH, 2**34, compute_efficiency=0.5, memory_efficiency=1, **overheads
    )


def link():
    return sim.Link(
        "plain", bandwidth=1e10, pageable_bandwidth=1e10, pageable_to_host=1e10, latency=0.0,
        peer=True, peer_bandwidth=1e10, peer_latency=1e-6,
    )  # fmt: skip


def run(step, k=2, gpu=None):
    """Return the summary of `STEPS` times ``step(rank, tensors)`` on `k` ranks."""

    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        tensors = torch.empty(1000, 1000, device=device), torch.empty(2_000_000, device=device)
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # without a gradient
        for _ in range(STEPS):
            step(rank, *tensors)
            optimizer.step()
        dist.destroy_process_group()

    return measure(program, k, gpu)[0]


def measure(program, k=2, gpu=None):
    """Return the summary of a program on `k` ranks, and the steps that it was found to make."""
    gpu = gpu or plain_gpu()
    with Steps() as steps:
        sim.spawn(program, nprocs=k, gpu=gpu, link=link(), numerics=False)
    return summarize(sim.trace(), steps, build_cluster(k, gpu, link())), steps


# On these GPUs, in seconds: a product, and an all_reduce, whose ring passes halves twice (NCCL's
# protocol Simple over PCIe; links that reach 96 % and fill with two slices).
PRODUCT = 2 * 1000**3 / RATE
BYTES = 8_000_000
WIRE = (BYTES / 0.96 + 2**21 * BYTES / (2**21 + BYTES)) / 1e10
SUM = 8.4e-6 + 2 * 5.7e-6 + WIRE


def parts(summary):
    """Return the causes with a share in the time, in seconds per step."""
    shares = {cause: share for cause, share in summary.shares.items() if share > 1e-9}
    assert sum(shares.values()) == pytest.approx(1)
    return {cause: share * summary.step_seconds for cause, share in shares.items()}


def one_after_the_other(rank, x, big):
    x @ x
    dist.all_reduce(big)


def at_once(rank, x, big):
    work = dist.all_reduce(big, async_op=True)
    x @ x
    work.wait()


def test_communication_that_nothing_hides_is_exposed():
    summary = run(one_after_the_other)
    assert summary.num_steps == STEPS - 1
    assert summary.step_seconds == pytest.approx(PRODUCT + SUM)
    assert parts(summary) == pytest.approx({"compute": PRODUCT, "communication": SUM})
    assert summary.exposed_communication == pytest.approx(SUM / (PRODUCT + SUM))
    assert summary.hidden_communication == pytest.approx(0, abs=1e-9)
    assert summary.mfu == pytest.approx(PRODUCT / (PRODUCT + SUM) * 0.5)  # of twice the rate
    assert (summary.limit, summary.peak_type) == ("compute", "float32")


def test_communication_hidden_by_a_product_is_free():
    summary = run(at_once)
    assert PRODUCT > SUM
    assert summary.step_seconds == pytest.approx(PRODUCT)
    assert parts(summary) == pytest.approx({"compute": PRODUCT})
    assert summary.exposed_communication == 0
    assert summary.hidden_communication == pytest.approx(SUM / PRODUCT)
    assert summary.mfu == pytest.approx(0.5)


def test_the_part_of_communication_that_outlasts_compute_is_exposed():
    def step(rank, x, big):
        work = dist.all_reduce(big, async_op=True)
        x[:250] @ x
        work.wait()

    summary = run(step)
    assert summary.step_seconds == pytest.approx(SUM)
    short = PRODUCT / 4
    assert parts(summary) == pytest.approx({"compute": short, "communication": SUM - short})


@pytest.mark.parametrize("step", [one_after_the_other, at_once])
def test_a_rank_waits_for_a_slower_one(step):
    def uneven(rank, x, big):
        if rank == 1:
            x @ x
        one_after_the_other(rank, x, big)

    summary = run(uneven)
    assert summary.step_seconds == pytest.approx(2 * PRODUCT + SUM)
    assert parts(summary) == pytest.approx({
        "compute": 1.5 * PRODUCT, "communication": SUM, "waiting for others": 0.5 * PRODUCT
    })  # fmt: skip
    late = summary.waited_for
    assert (late.ranks, late.cause) == ((1,), "compute")
    assert late.work == pytest.approx(2, rel=0.01)
    assert (late.own_seconds, late.others_seconds) == pytest.approx((2 * PRODUCT, PRODUCT))
    assert late.each == "step"
    waiting = next(line for line in str(summary).splitlines() if "waiting for others" in line)
    assert waiting.endswith("for rank 1, with 2.00 times as much work")


def test_nobody_is_late_where_all_do_the_same():
    assert run(one_after_the_other).waited_for is None


def test_a_rank_waits_for_a_message():
    def step(rank, x, big):
        if rank == 0:
            x @ x
            dist.send(big, 1)
        else:
            dist.recv(big, 0)

    send = 8.4e-6 + 5.7e-6 + 2e-6 + WIRE
    assert send < PRODUCT
    assert parts(run(step)) == pytest.approx({
        "compute": PRODUCT / 2, "communication": send, "waiting for others": PRODUCT / 2
    })  # fmt: skip


def test_a_kernel_named_like_a_collective_waits_for_no_rank():
    def step(rank, x, big):
        x.gather(0, torch.zeros(1, 1, dtype=torch.int64, device=x.device))
        dist.gather(big, [big, torch.empty_like(big)] if rank == 0 else None)

    found = parts(run(step, gpu=plain_gpu(launch_overhead=PRODUCT)))
    assert found.get("waiting for others", 0) < 1e-9
    assert found["launches"] > PRODUCT


def test_kernels_that_move_bytes_wait_for_memory():
    summary = run(lambda rank, x, big: big.add_(1))
    assert parts(summary) == pytest.approx({"memory bandwidth": 16_000_000 / BANDWIDTH})
    assert (summary.mfu, summary.limit) == (0, "memory bandwidth")


def test_a_slow_host_and_the_start_of_kernels_are_launches():
    slow = plain_gpu(launch_overhead=3 * PRODUCT)
    summary = run(lambda rank, x, big: x @ x, gpu=slow)
    assert parts(summary) == pytest.approx({"compute": PRODUCT, "launches": 2 * PRODUCT})
    assert summary.limit == "launches"
    begins_slowly = plain_gpu(kernel_overhead=PRODUCT / 2)
    summary = run(lambda rank, x, big: x @ x, gpu=begins_slowly)
    assert parts(summary) == pytest.approx({"compute": PRODUCT, "launches": PRODUCT / 2})


def test_copies_count_where_nothing_hides_them():
    def step(rank, x, big):
        x @ x
        big.cpu()

    copy = 8_000_000 / 1e10
    assert parts(run(step, k=1)) == pytest.approx({"compute": PRODUCT, "copies": copy})


def test_mfu_refers_to_the_dtype_of_most_flops():
    def step(rank, x, big):
        half = x.half()
        half @ half
        half @ half
        x @ x

    assert run(step).peak_type == "float16"


def test_mfu_is_that_of_the_steps_whatever_ran_before():
    """Else many FLOPs in float32 before the first step lower the peak, and MFU exceeds 1."""
    made = []

    def step(rank, x, big):
        if not made:
            for _ in range(20):
                x @ x
        made.append(rank)
        half = x.half()
        half @ half

    summary = run(step, k=1)
    assert summary.peak_type == "float16"
    assert 0 < summary.mfu <= 1


def test_each_type_counts_at_its_own_peak():
    """So a mixture of types reaches less than the better of them, and more than the worse."""

    def multiply(*xs):
        return run(lambda rank, x, big: [y @ y for y in map(x.to, xs)], k=1).mfu

    single, half = multiply(torch.float32), multiply(torch.float16, torch.float16)
    low, high = sorted((single, half))
    assert low < multiply(torch.float32, torch.float16, torch.float16) < high


def test_what_is_computed_again_is_in_the_mfu():
    def twice(x, y):
        return (x @ y) @ y

    def again(rank, x, big):
        y = x.clone().requires_grad_()
        checkpoint(twice, y, y, use_reentrant=False).sum().backward()

    def kept(rank, x, big):
        y = x.clone().requires_grad_()
        twice(y, y).sum().backward()

    kept, again = run(kept, k=1), run(again, k=1)
    assert again.step_seconds - kept.step_seconds == pytest.approx(PRODUCT, rel=0.01)
    assert kept.mfu < again.mfu < 0.5


def test_peak_memory_is_counted_per_rank():
    held = {}

    def step(rank, x, big):
        big.add_(1)
        if rank == 1:
            held[rank] = torch.empty(1_000_000, device=x.device)

    summary = run(step)
    least = 4_000_256 + 8_000_000  # of x and big, in blocks of 512 bytes
    assert summary.peak_memory[0] == least
    assert summary.peak_memory[1] >= least + 4_000_000
    text = str(summary)
    assert "on rank 1; the least: 11.4 MiB on rank 0" in text
    assert text.startswith("simulated, not measured: 2 x plain on plain")


def test_a_peak_that_the_program_resets_counts():
    def step(rank, x, big):
        torch.empty(10**7, device=x.device).add_(1)
        torch.accelerator.reset_peak_memory_stats()

    def kept(rank, x, big):
        torch.empty(10**7, device=x.device).add_(1)

    reset, kept = run(step), run(kept)
    assert reset.peak_memory == kept.peak_memory
    assert reset.peak_reserved == kept.peak_reserved
    assert min(kept.peak_memory.values()) > 4e7


def test_the_first_step_and_other_optimisers_do_not_count_and_the_slowest_rank_does():
    def program(rank):
        device = torch.accelerator.current_accelerator()
        x = torch.empty(1000, 1000, device=device)
        first, second = (torch.optim.SGD([torch.zeros(1, requires_grad=True)]) for _ in range(2))
        for products in (50, 1, 2, 30, 7)[: 5 - rank]:
            for _ in range(products * (1 + rank)):
                x @ x
            first.step()
            second.step()

    summary, steps = measure(program)
    assert steps.ends() == pytest.approx([2 * PRODUCT * n for n in (50, 51, 53, 83)])
    assert steps.durations() == pytest.approx([2 * PRODUCT * n for n in (1, 2, 30)])
    assert summary.step_seconds == pytest.approx(4 * PRODUCT)


def reference_then_steps(products):
    """Return a program that trains a reference on the CPU before it steps on its device."""

    def program(rank):
        weight = torch.zeros(1, requires_grad=True)
        reference = torch.optim.SGD([weight])
        for _ in range(5):
            weight.sum().backward()
            reference.step()
        x = torch.empty(1000, 1000, device=torch.accelerator.current_accelerator())
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        for n in products:
            for _ in range(n):
                x @ x
            optimizer.step()
        sim.synchronize()

    return program


def test_steps_of_a_reference_on_the_cpu_do_not_count():
    summary, _ = measure(reference_then_steps([50, 1, 2]))
    assert summary.num_steps == 2
    assert summary.step_seconds == pytest.approx(1.5 * PRODUCT)
    assert summary.start == pytest.approx(50 * PRODUCT)


def test_with_only_a_reference_the_summary_covers_the_whole_run():
    summary, _ = measure(reference_then_steps([3]))
    assert summary.num_steps == 0
    assert summary.step_seconds == pytest.approx(3 * PRODUCT)
    assert "no steps found" in str(summary)
    assert "how sure: not known: no steps were found" in str(summary)
    assert summary.to_dict()["error_of_time"] is None


def test_a_program_with_all_to_alls_is_taken_for_experts():
    def exchange(rank, a, b):
        dist.all_to_all_single(torch.empty_like(a), a)

    assert run(exchange).kind.model == "experts"
    assert run(at_once).kind.model == "dense"


@pytest.mark.parametrize(("axis", "kind"), [
    ("cp", ("dense", "split")), ("ep", ("experts", "whole")), ("tp", ("dense", "whole")),
])  # fmt: skip
def test_ranks_that_send_along_an_axis_of_contexts_split_sequences(axis, kind):
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        mesh = dist.init_device_mesh(device.type, (2, 2), mesh_dim_names=("dp", axis))
        x = torch.empty(1000, 1000, device=device)
        for _ in range(STEPS):
            dist.all_to_all_single(torch.empty_like(x), x, group=mesh.get_group(axis))

    found = measure(program, 4)[0].kind
    assert (found.model, found.sequences) == kind


def test_kernels_are_counted_by_the_part_of_the_step_that_launches_them():
    def program(rank):
        weight = torch.nn.Parameter(torch.empty(100, 100, device="sim"))
        optimizer = torch.optim.SGD([weight], foreach=False)
        weight @ weight  # before the first step, which does not count
        for _ in range(3):
            loss = (weight @ weight).relu()  # 2 forward; backward 3 and the sum of both products
            loss.backward(loss)
            if rank == 1:
                loss.add_(1)  # no part of the backward pass
            optimizer.step()
            optimizer.zero_grad()

    summary, _ = measure(program)
    assert summary.kernels == {
        0: {"forward": 2, "backward": 4, "optimizer": 1},
        1: {"forward": 3, "backward": 4, "optimizer": 1},
    }
    row = next(line for line in str(summary).splitlines() if line.startswith("kernels"))
    words = "3 forward, 4 backward, 1 in the optimizer, on rank 1; the least: 7 on rank 0"
    assert row == f"{'kernels':<22} {'8 a step':<19} {words}"


def test_an_optimizer_that_steps_during_the_backward_pass_counts_as_one():
    def program(rank):
        weight = torch.nn.Parameter(torch.empty(100, 100, device="sim"))
        optimizer = torch.optim.SGD([weight], foreach=False)
        weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
        for _ in range(3):
            loss = weight.relu()
            loss.backward(loss)

    assert measure(program, k=1)[0].kernels[0]["optimizer"] == 1


def test_without_steps_the_summary_covers_the_whole_run():
    def program(rank):
        x = torch.empty(1000, 1000, device=torch.accelerator.current_accelerator())
        for _ in range(1 + rank):
            x @ x
        sim.synchronize()

    summary, _ = measure(program)
    assert (summary.num_steps, summary.start) == (0, 0.0)
    assert parts(summary) == pytest.approx({
        "compute": 1.5 * PRODUCT, "waiting for others": 0.5 * PRODUCT
    })  # fmt: skip
    assert "no steps found" in str(summary)


def test_time_without_a_batch_is_input_unless_something_runs():
    spans = [
        sim.Span("rank 0 host", "sync", 0, WAIT_FOR_BATCH, 0.0, 3.0),
        sim.Span("rank 0 sim:0", "compute", 0, "mm", 0.0, 1.0, flops=10**12),
        sim.Span("rank 0 host", "loader", 0, "make a batch", 5.0, 2.0),
        sim.Span("rank 0 host", "loader", 1, "worker 0 makes a batch", 3.0, 2.0),
        sim.Span("rank 0 host", "sync", 0, "wait", 7.0, 1.0),
        sim.Span("rank 0 sim:0", "h2d", 0, "copy", 6.5, 1.0),
    ]
    found = shares(spans, plain_gpu(), 0.0, 8.0)
    seconds = {cause: 8 * share for cause, share in found.items()}
    assert seconds == pytest.approx({
        "compute": 1, "memory bandwidth": 0, "communication": 0, "copies": 1,
        "waiting for others": 0.5, "launches": 2, "input": 3.5,
    })  # fmt: skip
    assert found.keys() == CAUSES_WITH_INPUT.keys()


def test_a_product_that_memory_limits_counts_as_memory_bandwidth():
    gpu = plain_gpu()
    moved = gpu.seconds(0, 10**9)
    for seconds, cause in ((moved, "memory bandwidth"), (1.01 * moved, "compute")):
        span = sim.Span("rank 0 sim:0", "compute", 0, "mm", 0.0, seconds, 10**6, 10**9)
        found = shares([span], gpu, gpu.kernel_overhead, seconds)
        assert found[cause] == pytest.approx(1)


def test_a_moment_has_one_cause():
    spans = [
        sim.Span("rank 0 sim:0", "h2d", 0, "copy", 0.0, 4.0),
        sim.Span("rank 0 sim:0", "comm", 1, "all_reduce", 1.0, 2.0),
        sim.Span("rank 0 sim:0", "compute", 0, "mm", 2.0, 1.0, flops=10**12),
        sim.Span("rank 0 host", "sync", 0, "wait", 0.0, 8.0),
    ]
    found = shares(spans, plain_gpu(), 0.0, 10.0)
    assert found == pytest.approx({
        "compute": 0.1, "memory bandwidth": 0, "communication": 0.1, "copies": 0.2,
        "waiting for others": 0.6, "launches": 0,
    })  # fmt: skip
    assert list(found) == list(CAUSES)


def test_numbers_that_read_the_same_are_not_told_apart():
    summary = run(lambda rank, x, big: big.add_(1))
    peaks = {0: 17_930_100_000, 1: 17_930_000_000}
    text = str(replace(summary, step_seconds=0.002, peak_memory=peaks))
    assert "step time              2.00 ms " in text
    assert "on every rank" in text
    text = str(replace(summary, step_seconds=0.175, peak_memory={**peaks, 1: 10**10}))
    assert "step time              175 ms " in text
    assert "on rank 0; the least: 9.31 GiB on rank 1" in text


@pytest.mark.parametrize("before", ["", "torch.ones(4, device='cuda') + 1\n"])
def test_ranks_that_leave_at_once_are_named(simgpu_run, before):
    source = f"import os, torch\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n{before}"
    code, out, err = simgpu_run(f"{source}exit()\n", "--nproc-per-node", "2")
    line = 4 if before else 3
    assert code == 0
    assert f"2 of 2 ranks left by exit() in train.py:{line}" in out + err
    assert "used no simulated GPU" not in err


def test_a_run_without_products_has_no_mfu(simgpu_run):
    source = "import torch\ntorch.cuda.set_device(0)\nx = torch.ones(8, 8, device='cuda')\n"
    assert "MFU" not in simgpu_run(f"{source}x + 1\n", "--nproc-per-node", "1")[1]
    assert "MFU" in simgpu_run(f"{source}x @ x\n", "--nproc-per-node", "1")[1]


def test_a_rank_that_uses_no_gpu():
    def program(rank):
        if rank:
            torch.empty(100 * rank, 2**20, device="sim").add_(1)

    summary, _ = measure(program, 3)
    assert list(summary.peak_memory) == list(summary.uncounted) == [1, 2]
    assert summary.peak_memory[2] == 2 * summary.peak_memory[1] > 0


@pytest.mark.parametrize("before", ["", "torch.ones(4, device=f'cuda:{rank}') + 1"])
def test_ranks_of_a_spawn_that_leave_at_once_are_named(simgpu_run, before):
    source = f"def work(rank):\n    import torch\n    {before}\n    exit()\n"
    start = "if __name__ == '__main__':\n    torch.multiprocessing.spawn(work, nprocs=2)\n"
    code, out, err = simgpu_run(f"import torch.multiprocessing\n{source}{start}")
    assert code == 0, err
    assert "2 of 2 ranks left by exit() in train.py:5" in out + err
