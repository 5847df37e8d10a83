"""What the host takes for kernels: stated for eager code, forward and backward, and for a step."""

import json
import re

import pytest
import torch
from support.programs.clock_programs import elapsed
from torch.utils.checkpoint import checkpoint

import simgpu as sim
from simgpu.__main__ import main
from simgpu.compiled.regions import Region
from simgpu.hardware import host
from simgpu.hardware.assumptions import COMPILED_CALL, LAUNCH_OVERHEAD

FORWARD, BACKWARD = 100e-6, 30e-6  # far longer than the kernels below
GPU = host.with_host(sim.GPUS["a100"], (FORWARD, BACKWARD))
STATED = ["--host", "100us/30us"]
SMALL = """
import os, torch
from torch import nn
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)).to("cuda")
call = CALL
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(4, 8, device="cuda")
for _ in range(4):
    call(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def x():
    (device,) = sim.configure(1, gpu=GPU)
    return torch.ones(8, 8, device=device, requires_grad=True)


def seconds(work):
    """Return what `work` takes the host: all kernels end before the host has launched the next."""
    return elapsed(work) - sim.GPUS["a100"].kernel_overhead


def test_each_pass_has_its_own_seconds(x):
    made = []
    assert seconds(lambda: made.append(x.sin().cos().exp())) == pytest.approx(3 * FORWARD, rel=0.01)
    gradient = torch.ones_like(made[0])
    took = seconds(lambda: made[0].backward(gradient))
    # of exp a product, of cos a sine, a sign and a product, of sin a cosine and a product
    assert took == pytest.approx(6 * BACKWARD, rel=0.01)


def test_what_a_backward_pass_computes_again_is_issued_by_python(x):
    def pair(x):
        return x.sin().cos()

    plain = seconds(pair(x).sum().backward)
    x.grad = None
    again = seconds(checkpoint(pair, x, use_reentrant=False).sum().backward)
    assert again - plain == pytest.approx(FORWARD, rel=0.05)  # the sine: the cosine is not needed


def test_compiled_kernels_take_what_they_took(x):
    def chain(x):
        return (x @ x).sin()

    took = seconds(lambda: Region(chain)(x))
    assert took == pytest.approx(COMPILED_CALL + 2 * LAUNCH_OVERHEAD, rel=0.05)
    assert seconds(lambda: chain(x)) == pytest.approx(2 * FORWARD, rel=0.05)


def test_a_faster_host_makes_compiled_kernels_faster():
    (device,) = sim.configure(1, gpu=host.with_host(sim.GPUS["a100"], (1e-6, 1e-6)))
    x = torch.ones(8, 8, device=device)
    calls = Region(lambda x: x @ x @ x @ x)
    issued = elapsed(lambda: calls(x))
    assert issued < COMPILED_CALL + 3 * LAUNCH_OVERHEAD


@pytest.mark.parametrize("text", ["31us/24us", "0.031ms/24 µs", "0.000031s/24us"])
def test_times_as_people_write_them(text):
    assert host.parse(text) == pytest.approx((31e-6, 24e-6))


@pytest.mark.parametrize("text", ["31", "31us/", "/24us", "fast", "-3us", "31us/24us/1us", "us"])
def test_other_texts_are_refused(text, capsys):
    for command in (["run", f"--host={text}", __file__], ["plan", "gpt2-124m", f"--host={text}"]):
        with pytest.raises(SystemExit):
            main(command)
        err = capsys.readouterr().err
        assert "--host: " in err
        assert "31us/24us" in err


def summary(simgpu_run, source, *options):
    code, out, err = simgpu_run(source, "--shapes-only", "--summary", "json", *options)
    assert code == 0, err
    return json.loads(out.splitlines()[-1])


def test_a_step_takes_its_launches(simgpu_run):
    source = SMALL.replace("CALL", "model")
    found = summary(simgpu_run, source, *STATED)
    (parts,) = found["kernels_per_step"].values()
    (launches,) = found["launches_per_step"].values()
    assert launches == [parts["forward"] + parts["optimizer"], parts["backward"]]
    assert found["launch_seconds"] == pytest.approx([FORWARD, BACKWARD])
    expected = launches[0] * FORWARD + launches[1] * BACKWARD
    assert found["step_time_seconds"] == pytest.approx(expected, rel=0.01)
    assert found["kind"]["limit"] == "stated launches"
    assert found["error_of_time"] is None  # no such step was published


@pytest.mark.parametrize("text", ["1us", "20us"])
def test_what_is_stated_is_not_called_assumed(text, simgpu_run):
    _, out, _ = simgpu_run(SMALL.replace("CALL", "model"), "--shapes-only", "--host", text)
    assert f"{text.removesuffix('us')} µs each\n" in out
    assert "assumed" not in out
    assert "stated launches take 4 % or more" in out


def test_the_time_on_a_slow_host_is_that_of_a_run_with_it(simgpu_run):
    source = SMALL.replace("CALL", "model")
    _, out, _ = simgpu_run(source, "--shapes-only")
    (line,) = re.findall(r"^host .*", out, re.MULTILINE)
    slow = re.search(r"a step takes (\S+ \S+) at least: --host", line)[1]
    _, out, _ = simgpu_run(source, "--shapes-only", "--host", "31us/24us")
    assert f"step time              {slow} " in out
    assert "assumed" not in re.findall(r"^host .*", out, re.MULTILINE)[0]


def test_compiled_code_is_not_counted(simgpu_run):
    source = SMALL.replace("CALL", "torch.compile(model)")
    plain = summary(simgpu_run, source)
    stated = summary(simgpu_run, source, *STATED)
    (eager,) = stated["launches_per_step"].values()
    (kernels,) = stated["kernels_per_step"].values()
    assert sum(eager) < sum(kernels.values())
    more = stated["step_time_seconds"] - plain["step_time_seconds"]
    expected = eager[0] * (FORWARD - LAUNCH_OVERHEAD) + eager[1] * (BACKWARD - LAUNCH_OVERHEAD)
    assert more == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("ranks", ["1", "2"])
def test_what_a_host_does_for_each_step_is_added(ranks, simgpu_run):
    source = SMALL.replace("CALL", "model")
    options = "--nproc-per-node", ranks
    plain = summary(simgpu_run, source, *options)["step_time_seconds"]
    more = summary(simgpu_run, source, *options, "--host-per-step", "20ms")["step_time_seconds"]
    assert more - plain == pytest.approx(20e-3, rel=0.01)
    _, out, _ = simgpu_run(source, "--shapes-only", *options, "--host-per-step", "20ms")
    assert re.search(r"^host .*, and for 20.0 ms of other work$", out, re.MULTILINE)


def test_no_time_for_each_step_is_refused(simgpu_run, capsys):
    with pytest.raises(SystemExit):
        simgpu_run("", "--host-per-step", "20")
    assert "--host-per-step: '20' is no time" in capsys.readouterr().err


def test_a_cuda_graph_is_launched_as_before(simgpu_run):
    source = SMALL.replace("CALL", "torch.compile(model, mode='reduce-overhead')")
    plain, stated = (summary(simgpu_run, source, *options) for options in ([], STATED))
    (eager,) = stated["launches_per_step"].values()
    more = stated["step_time_seconds"] - plain["step_time_seconds"]
    expected = eager[0] * (FORWARD - LAUNCH_OVERHEAD) + eager[1] * (BACKWARD - LAUNCH_OVERHEAD)
    assert more == pytest.approx(expected, rel=0.05)
