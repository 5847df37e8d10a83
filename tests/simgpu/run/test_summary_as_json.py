"""The summary for programs: the same numbers as in the text."""

import json
import re

import pytest

from simgpu.run.steps import PARTS
from simgpu.run.summary import Summary
from simgpu.units import quantity, size

TRAIN = """
import torch, os
import torch.distributed as dist
dist.init_process_group()
device = torch.accelerator.current_accelerator()
x = torch.ones(2048, 2048, device=device)
extra = torch.ones(2**18 * int(os.environ["RANK"]), device=device)
weight = torch.nn.Parameter(x[0].clone())
optimizer = torch.optim.SGD([weight])
for _ in range(4):
    (x @ x * weight).sum().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
"""


@pytest.fixture
def both(simgpu_run):
    """Return the lines of the summary as text, and the JSON."""
    options = (
        *("--nproc-per-node", "2", "--gpu", "rtx4090", "--memory", "20GB", "--shapes-only"),
        *("--per-step", "640 images"),
    )
    _, text, _ = simgpu_run(TRAIN, *options)
    _, out, _ = simgpu_run(TRAIN, *options, "--summary", "json")
    assert out.count("\n") == 1
    return text.splitlines(), json.loads(out)


def test_its_numbers_are_those_of_the_text(both):
    lines, found = both
    assert lines[0] == f"simulated, not measured: {found['hardware']}"
    rows = [tuple(re.split(r" {2,}", line.strip())) for line in lines[1:-1]]

    def percent(share):
        return "below 0.1 %" if 0 < share < 0.001 else f"{100 * share:.1f} %"

    step, throughput, exposed, memory, mfu, limit, *causes, kernels, host = rows
    assert step == ("step time", quantity(found["step_time_seconds"], "s"), "median of 3")
    assert found["steps"] == 3
    samples = found["throughput_per_second"]
    assert samples == pytest.approx(640 / found["step_time_seconds"])
    assert throughput[1:] == (quantity(samples, "images/s"), "640 images a step, as given")
    assert found["work_unit"] == "images"
    hidden = percent(found["hidden_communication_share"])
    assert exposed[1:] == (
        percent(found["exposed_communication_share"]),
        f"of the time; {hidden} more is hidden behind kernels",
    )
    peak = found["peak_memory_bytes"]
    assert peak["1"] == peak["0"] + 2**20
    assert memory[1:] == (
        f"{size(peak['1'])} of 20 GiB",
        f"on rank 1; the least: {size(peak['0'])} on rank 0; "
        f"{size(found['peak_reserved_bytes']['1'])} reserved",
    )
    assert found["peak_reserved_bytes"]["1"] >= peak["1"]
    low, high = found["uncounted_memory_bytes"]["1"]
    assert 2**28 < low < high < 2 * 2**30  # CUDA's context and one group
    assert found["gpu_memory_bytes"] == 20 * 2**30
    assert mfu[1:] == (
        percent(found["mfu_share"]),
        f"of {quantity(found['peak_flop_per_second'], 'FLOP/s')}, "
        f"the peak for {found['peak_dtype']}",
    )
    assert found["kernels_per_step"]["0"] == found["kernels_per_step"]["1"]
    parts = found["kernels_per_step"]["0"]
    assert kernels[1:] == (
        f"{sum(parts.values()):.0f} a step",
        "{:.0f} forward, {:.0f} backward, {:.0f} in the optimizer".format(*parts.values()),
    )
    launches, each = found["launches_per_step"]["0"], found["launch_seconds"]
    assert sum(launches) == sum(parts.values())  # nothing is compiled
    assert host[1:] == (
        f"{1e6 * sum(n * s for n, s in zip(launches, each, strict=True)):.1f} µs a step",
        f"to launch {sum(launches):.0f} kernels of eager code, 5 µs each (assumed)",
    )
    shares = found["time_shares"]
    assert limit[1] == found["limited_by"] == max(shares, key=shares.get)
    assert sorted(causes) == sorted((cause, percent(share)) for cause, share in shares.items())
    assert sum(shares.values()) == pytest.approx(1)
    assert lines[-1].startswith(
        "how sure: not known: no step of this kind was published (RTX4090, "
    )
    assert found["kind"]["gpu"] == "rtx4090"
    assert found["error_of_time"] is None
    start, end = found["window_seconds"]
    assert end - start == pytest.approx(3 * found["step_time_seconds"], rel=0.01)


def test_every_key_is_documented(both):
    described = set(re.findall(r"``(\w+)``", Summary.to_dict.__doc__))
    assert described == both[1].keys() | set(PARTS)


COMPILED = """
import torch
device = torch.accelerator.current_accelerator()
model = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.GELU()).to(device)
optimizer = torch.optim.SGD(model.parameters())
compiled = torch.compile(model)
for _ in range(3):
    compiled(torch.ones(4096, 4096, device=device)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("options", "code"), [((), "compiled"), (("--eager",), "eager")])
def test_compiled_code_is_of_another_kind(simgpu_run, options, code):
    words = ("--nproc-per-node", "1", "--gpu", "a100", "--shapes-only", "--summary", "json")
    _, out, _ = simgpu_run(COMPILED, *words, *options)
    found = json.loads(out)
    assert found["kind"]["code"] == code
    assert found["kind"]["numbers"] == "32-bit"
    assert (found["kind"]["place"], found["kind"]["limit"]) == ("one GPU", "kernels")
