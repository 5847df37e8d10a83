"""What `simgpu run` says and does about scripts that compile."""

import json
import re
import subprocess
import sys

import pytest

from simgpu.run.cuda import tracing

pytestmark = pytest.mark.slow  # whole scripts

TRAIN = """
import torch
from torch import nn
torch.manual_seed(0)
device = "cuda"
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 64))
model.to(device)
optimizer = torch.optim.AdamW(model.parameters())
COMPILE
for step in range(3):
    x = torch.randn(32, 64, device=device)
    loss = call(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item())
"""
GAIN = re.compile(
    r"note: compiled: (\d+\.\d\d) times as fast as eager code \(--eager\); (\d+) of a step's "
    r"kernels on a rank are compiled, instead of (\d+) eager ones, which take \d.* instead "
    r"of \d.*, and their launches \d.*"
)


def train(compile):
    return TRAIN.replace("COMPILE", compile)


@pytest.fixture
def run(simgpu_run):
    """Run a script; return its output with the summary, and its errors."""

    def run(source, *options):
        code, out, err = simgpu_run(source, "--nproc-per-node", "1", *options)
        assert code == 0, err
        return out, err

    return run


def losses(out):
    return [line for line in out.splitlines() if line.startswith("loss")]


def test_it_is_said_once_what_compiling_gains(run):
    eager, err = run(train("call = model"))
    assert "compile" not in eager + err
    out, err = run(train("call = torch.compile(model)"))
    assert losses(out) == losses(eager)
    assert err.count(tracing.NOTE) == 1
    assert out.count(f"note: {tracing.NOTE}") == 1
    (found,) = GAIN.findall(out)
    ratio, after, before = map(float, found)
    assert after < before
    assert ratio > 0
    assert "graph breaks" not in out


def test_eager_runs_what_is_compiled_as_eager_code(run):
    source = train("call = torch.compile(model)")
    plain, eager, compiled = (
        seconds(run, source, *options)
        for source, *options in ([train("call = model")], [source, "--eager"], [source])
    )
    assert eager == plain != compiled
    _, err = run(source, "--eager")
    assert err.count(tracing.EAGER_NOTE) == 1


def seconds(run, source, *options):
    """Return the time of a step."""
    out, _ = run(source, "--summary", "json", *options)
    return json.loads(out.splitlines()[-1])["step_time_seconds"]


@pytest.mark.parametrize(
    "call",
    [
        "torch.compile(model, disable=True)", "torch.compile(disable=True)(model)",
    ],
)  # fmt: skip
def test_disabled_it_does_nothing(call, run):
    source = train(f"call = {call}; assert call is model")
    out, err = run(source)
    assert "compiled: " not in out
    assert tracing.NOTE not in out + err


def test_graph_breaks_are_named_by_their_lines(run):
    source = """
import torch, os; torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
@torch.compile
def function(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    print("in the region", y[0, 0].item())
    return y.relu()
x = torch.ones(4, 4, device="cuda")
function(x)
function(x)
function(-x)  # nothing is left to do where it prints
"""
    for options in ([], ["--nproc-per-node", "2"]):  # counted on one rank
        out, _ = run(source, *options)
        breaks = next(line for line in out.splitlines() if "graph breaks" in line)
        assert breaks == (
            "note: graph breaks, which compiled code does not fuse across: "
            "train.py:6 (3 times), train.py:8 (2 times)"
        )


UNTRACED = {
    "print": 'print("here")',
    "a logger": 'log.warning("here")',
    "a logger below its level": 'log.debug("here")',
    "the root logger": 'logging.debug("here")',
    "time": "time.time()",
    "perf_counter": "time.perf_counter()",
    "sleep": "time.sleep(0.0)",
    "Dynamo's own": "torch._dynamo.graph_break()",
}
TRACED = {
    "an environment variable": 'os.environ.get("HOME")',
    "a question": "torch.compiler.is_compiling() or print()",
    "a size": "x.shape[0] + x.numel()",
}
FUNCTION = """
import logging, os, time, torch
log = logging.getLogger("mine")
def function(x):
    x = (x + 2).sin()
    {line}
    return x * 3
"""


EXPLAIN = """
import json, sys, torch
counts = {}
for source in json.load(sys.stdin):
    exec(source, names := {})
    torch._dynamo.reset()
    found = torch._dynamo.explain(names["function"])(torch.ones(4))
    counts[source] = found.graph_break_count
json.dump(counts, sys.stderr)
"""


@pytest.fixture(scope="module")
def breaks_of_dynamo():
    """How many breaks PyTorch's own tracer finds in each function, on the CPU, without `simgpu`."""
    sources = [FUNCTION.format(line=line) for line in (*UNTRACED.values(), *TRACED.values())]
    command = [sys.executable, "-W", "ignore", "-c", EXPLAIN]
    done = subprocess.run(
        command, input=json.dumps(sources), capture_output=True, text=True, timeout=120
    )
    return json.loads(done.stderr.splitlines()[-1])


@pytest.mark.process
@pytest.mark.parametrize("line", [*UNTRACED.values(), *TRACED.values()], ids=[*UNTRACED, *TRACED])
def test_calls_that_need_no_value_break_graphs_where_dynamo_breaks(
    line, run, simgpu_run, breaks_of_dynamo
):
    function = FUNCTION.format(line=line)
    expected = breaks_of_dynamo[function]
    assert expected == (line in UNTRACED.values())
    data = "x = torch.ones(4, 4, device='cuda')\n"
    out, _ = run(f"{function}{data}torch.compile(function)(x)\n{line}\n")
    assert ("train.py:6 (once)" in out) == expected
    one = f"{function}{data}torch.compile(function, fullgraph=True)(x)\n{line}\n"
    code, _, err = simgpu_run(one, "--nproc-per-node", "1")
    assert code == expected
    assert ("train.py:6: " in err and "cannot be traced, which breaks the graph" in err) == code


def test_other_threads_break_no_graphs(run):
    source = """
import threading, torch
@torch.compile(fullgraph=True)
def function(x):
    x = x + 1
    other = threading.Thread(target=lambda: print("a progress bar"))
    other.start()
    other.join()
    return x * 2
function(torch.ones(4, 4, device="cuda"))
"""
    out, _ = run(source)
    assert "a progress bar" in out
    assert "graph breaks" not in out


def test_what_ddp_does_breaks_no_graph(simgpu_run):
    source = """
import os, torch
import torch.distributed as dist
from torch import nn
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group()
model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.BatchNorm1d(8)).cuda()
model = torch.compile(nn.parallel.DistributedDataParallel(model), fullgraph=True)
for _ in range(2):
    model(torch.ones(4, 8, device="cuda")).sum().backward()
"""
    code, out, err = simgpu_run(source, "--nproc-per-node", "2")
    assert code == 0, err
    assert "compiled: " in out
    assert "graph breaks" not in out


def test_only_some_lines_with_breaks_are_named(run):
    breaks = "\n".join("    x = x + 1; x.sum().item()" for _ in range(5))
    source = f"import torch\n@torch.compile\ndef function(x):\n{breaks}\n    return x\n"
    out, _ = run(source + "function(torch.ones(4, device='cuda'))\n")
    assert "train.py:4 (once), train.py:5 (once), train.py:6 (once), and 2 more lines" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("mode='fast'", "Unrecognized mode=fast"),
        ("mode='default', options={}", "Either mode or options can be specified"),
        ("backend='nothing'", "Invalid backend"),
    ],
)
def test_what_pytorch_refuses_is_refused(arguments, text, simgpu_run):
    for call in (
        f"torch.compile(model, {arguments})", f"torch.compile({arguments})(model)",
        f"model.compile({arguments})",
    ):  # fmt: skip
        code, _, err = simgpu_run(train(f"call = {call}"), "--nproc-per-node", "1")
        assert code == 1
        assert text in err


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_all_modes_and_other_arguments(mode, run):
    more = f"mode={mode!r}, dynamic=True, fullgraph=True"
    out, _ = run(train(f"call = torch.compile(model, {more})"))
    assert GAIN.search(out)


def test_a_module_keeps_its_names(run):
    source = """
import copy, io, pickle, torch
from torch import nn
own = nn.Linear(4, 4).to("cuda")
model = torch.compile(own)
assert list(model.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
assert model._orig_mod is own
assert type(model).__name__ == "OptimizedModule"
assert isinstance(model, nn.Module) and model.weight is own.weight
model.eval()
assert not own.training
x = torch.ones(2, 4, device="cuda")
assert torch.equal(model(x), own(x))

other = copy.deepcopy(model)
assert other.weight is not own.weight
assert torch.equal(other(x), model(x))

file = io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
other.load_state_dict(torch.load(file))

in_place = nn.Linear(4, 4).to("cuda")
in_place.compile()
assert list(in_place.state_dict()) == ["weight", "bias"]
assert torch.equal(in_place(x), in_place.forward(x))
again = copy.deepcopy(in_place)
assert torch.equal(again(x), in_place(x))
pickled = pickle.loads(pickle.dumps(in_place.cpu()))
assert torch.equal(pickled(x.cpu()), in_place(x.cpu()))
"""
    run(source)


def test_what_scripts_set_and_ask(run):
    source = """
import torch
import torch._dynamo
import torch._inductor.config
torch._dynamo.config.cache_size_limit = 64
torch._dynamo.config.suppress_errors = True
torch._inductor.config.coordinate_descent_tuning = True
torch.compiler.reset()
torch._dynamo.reset()

@torch.compile(mode="reduce-overhead")
def function(x):
    assert torch.compiler.is_compiling() and torch.compiler.is_dynamo_compiling()
    return x * 2

x = torch.ones(4, device="cuda")
torch._dynamo.mark_dynamic(x, 0)
for _ in range(2):
    torch.compiler.cudagraph_mark_step_begin()
    assert function(x).sum().item() == 8
assert not torch.compiler.is_compiling()

@torch.jit.script
def scripted(x):
    return x if torch.compiler.is_compiling() else x * 3

assert scripted(x).sum().item() == 12

@torch.compiler.disable
def outside(x):
    return x + 1

@torch._dynamo.disable
def also_outside(x):
    return x + 1

torch._dynamo.allow_in_graph(outside)
assert torch.compile(lambda x: also_outside(outside(x)) * 2)(x).sum().item() == 24
"""
    run(source)


def test_shapes_alone_take_as_long(run):
    source = train("call = torch.compile(model)").replace('print("loss", loss.item())', "loss")
    assert seconds(run, source) == seconds(run, source, "--shapes-only")


def test_ranks_compile_for_themselves(simgpu_run):
    source = train("call = torch.compile(model)").replace(
        "torch.manual_seed(0)",
        "torch.distributed.init_process_group()\n"
        "torch.cuda.set_device(torch.distributed.get_rank())",
    )
    code, out, err = simgpu_run(source, "--nproc-per-node", "2")
    assert code == 0, err
    assert err.count(tracing.NOTE) == 1
    assert len(GAIN.findall(out)) == 1


def test_timelines_show_what_is_fused(run, tmp_path):
    page = tmp_path / "trace.json"
    run(train("call = torch.compile(model)"), "--timeline", str(page))
    names = {event["name"] for event in json.loads(page.read_text())["traceEvents"]}
    assert any(name.startswith("triton_") and "native_layer_norm" in name for name in names)
    assert not any(name == "gelu" for name in names)
