"""The launcher: scripts run as under ``torchrun``, errors are reported."""

import errno
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.paths import SCRIPTS
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from simgpu.run.command import main
from simgpu.timeline import Timeline

ENV = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
ENV["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
TORCHRUN += ["--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
COMMAND = [sys.executable, "-m", "simgpu", "run", "--nproc-per-node", "2"]
GPUS = ["--gpu", "h100", "--link", "nvlink4"]
CLOCK = "simgpu run: time.time() and the like give the rank's simulated clock, "
CLOCK += "--wall-clock the real one\n"
IN_A_CHAPTER = pytest.mark.exhaustive  # which makes this comparison, too


def run_command(command, **env):
    done = subprocess.run(command, env=ENV | env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "logger.cpp" not in done.stderr, "DDP complains that it times CUDA and CPUs only"
    return done.stdout


@pytest.fixture
def launch_file(own_process, capsys):
    """Run the launcher in this process with the words of a command; return the output."""

    def run(*words):
        capsys.readouterr()
        code = main(["--nproc-per-node", "2", *words])
        out, err = capsys.readouterr()
        assert code == 0, err
        assert "logger.cpp" not in err
        return out

    return run


@pytest.fixture
def launch(own_process, tmp_path, capsys):
    """Run the launcher in this process on a script; return exit code, output, errors.

    The errors are without the line on the clock, with which they begin.
    """

    def run(source, *args, options=()):
        path = tmp_path / "train.py"
        path.write_text(source)
        code = main(["--nproc-per-node", "2", *options, str(path), *args])
        out, err = capsys.readouterr()
        assert err.startswith(CLOCK)
        return code, out, err.removeprefix(CLOCK)

    return run


def weights(path):
    """Return the weights in a file, or in the folder of a distributed checkpoint."""
    if not path.is_dir():
        return torch.load(path)
    dcp_to_torch_save(path, path.with_suffix(".whole"))
    return torch.load(path.with_suffix(".whole"))["model"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "args", "tolerance"),
    [
        pytest.param("ddp_plain.py", [], 1e-6, marks=IN_A_CHAPTER),
        pytest.param("fsdp_plain.py", ["--steps", "5"], 1e-5, marks=IN_A_CHAPTER),
        pytest.param("fsdp_plain.py", ["--steps", "5", "--bfloat16"], 1e-3, marks=IN_A_CHAPTER),
        pytest.param("tensor_parallel.py", ["--sequence"], 1e-5, marks=IN_A_CHAPTER),
    ],
)
def test_a_script_gives_the_same_losses_under_torchrun_on_gloo(
    script, args, tolerance, tmp_path, launch_file
):
    def losses(run, *command, file):
        out = run(*command, "--save", str(file))
        return [float(loss) for loss in re.findall(r"loss (\S+?),?\s", out)]

    command = *TORCHRUN, str(SCRIPTS / script), *args
    real = losses(lambda *words: run_command(words), *command, file=tmp_path / "real.pt")
    command = *GPUS, str(SCRIPTS / script), *args
    simulated = losses(launch_file, *command, file=tmp_path / "simulated.pt")
    assert len(real) >= 3
    assert real[-1] < real[0] - 0.5
    assert simulated == pytest.approx(real, rel=tolerance)
    saved = [weights(tmp_path / f"{name}.pt") for name in ("real", "simulated")]
    assert saved[0].keys() == saved[1].keys()
    for name, value in saved[0].items():
        assert value.shape == saved[1][name].shape
        assert str(saved[1][name].device) == "cpu"


@pytest.mark.exhaustive
def test_two_runs_in_two_processes_have_the_same_clock(tmp_path, launch_file):
    def run_elsewhere(*words):
        return run_command([*COMMAND, *words], PYTHONHASHSEED="1")

    outs = []
    for run in (run_elsewhere, launch_file):
        file = tmp_path / f"{len(outs)}.json"
        script = [str(SCRIPTS / "fsdp_plain.py"), "--steps", "3"]
        out = run(*GPUS, "--timeline", str(file), *script)
        outs.append((out, file.read_bytes()))
    assert outs[0] == outs[1]
    assert "step time" in outs[0][0]
    events = json.loads(outs[0][1])["traceEvents"]
    assert {"all_gather", "reduce_scatter"} <= {event["name"] for event in events}


WORK = """
import torch
device = torch.accelerator.current_accelerator()
x = torch.ones(500, 500, device=device)
"""


def test_a_script_is_main_with_its_own_arguments(launch, tmp_path):
    (tmp_path / "beside.py").write_text("answer = 42\n")
    source = WORK + (
        "import argparse, os, pickle, sys, beside\n"
        "import torch.distributed as dist\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--nproc-per-node', type=int)\n"
        "n = parser.parse_args().nproc_per_node\n"
        "class Own: pass\n"
        "dist.init_process_group()\n"
        "dist.barrier()\n"
        "rank = dist.get_rank()\n"
        "assert sys.modules['__main__'].__dict__ is globals()\n"
        "assert type(pickle.loads(pickle.dumps(Own()))) is Own\n"
        "sys.argv.append(rank)\n"
        "dist.barrier()\n"
        "assert sys.argv[1:] == ['--nproc-per-node', '7', rank]\n"
        "assert os.path.samefile(os.path.dirname(__file__), sys.path[0])\n"
        "print(rank, __name__, n, beside.answer, os.environ['WORLD_SIZE'])\n"
    )
    before = sys.modules["__main__"], list(sys.argv)
    code, out, err = launch(source, "--nproc-per-node", "7")
    assert (code, err) == (0, "")
    assert "0 __main__ 7 42 2\n" in out
    assert "1 __main__ 7 42 2\n" in out
    assert (sys.modules["__main__"], list(sys.argv)) == before


def test_a_script_that_uses_no_gpu_is_told_so(launch):
    code, out, err = launch("print('hello')\n")
    assert (code, out) == (0, "hello\nhello\n")
    assert "train.py used no simulated GPU" in err


def test_a_barrier_uses_gpus(launch):
    code, out, err = launch(
        "import torch.distributed as dist\ndist.init_process_group()\ndist.barrier()\n"
    )
    assert code == 0
    assert "used no simulated GPU" not in err
    assert "exposed communication" in out


def test_an_exception_is_shown_with_its_rank(launch):
    source = WORK + (
        "import os\n"
        "import torch.distributed as dist\n"
        "dist.init_process_group()\n"
        "def fail():\n"
        "    raise ValueError('wrong\\nhere')\n"
        "if os.environ['RANK'] == '1':\n"
        "    fail()\n"
        "dist.barrier()\n"
    )
    code, out, err = launch(source)
    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert lines[-1] == "simgpu run: train.py failed on rank 1 (exit code 1)"
    assert all(line.startswith("[rank1]: ") for line in lines[:-1])
    assert "[rank1]: ValueError: wrong" in lines
    assert lines[1].endswith('train.py", line 11, in <module>')  # none of the launcher's own
    if sys.version_info >= (3, 11):
        assert "meanwhile rank 0 waits in barrier" in err


def test_unseeded_ranks_differ_in_the_same_way_in_every_run(launch):
    source = WORK + (
        "import random, numpy\n"
        "print(torch.rand(1).item(), random.random(), numpy.random.rand())\n"
        "print(torch.rand(1, device=device).item())\n"
    )
    lines = launch(source)[1].splitlines()[:4]
    assert launch(source)[1].splitlines()[:4] == lines
    host = lines[0].split(), lines[2].split()
    assert all(a != b for a, b in zip(*host, strict=True))
    assert lines[1] == lines[3]


def test_exit_codes(launch):
    by_rank = WORK + "import os, sys\nsys.exit({} if os.environ['RANK'] == '1' else 0)\n"
    code, _, err = launch(by_rank.format(3))
    assert (code, err) == (3, "simgpu run: train.py failed on rank 1 (exit code 3)\n")
    code, _, err = launch(by_rank.format("'no data'"))
    assert code == 1
    assert err.startswith("[rank1]: no data\n")
    code, out, err = launch(by_rank.format(0))
    assert (code, err) == (0, "")
    assert "step time" in out
    code, _, err = launch("x = (\n")
    assert code == 1
    assert "SyntaxError" in err


def test_a_deadlock_belongs_to_no_rank(launch):
    code, _, err = launch(
        "import torch.distributed as dist\n"
        "dist.init_process_group()\n"
        "if dist.get_rank() == 0:\n"
        "    dist.barrier()\n"
    )
    assert code == 1
    assert "rank 0 waits in barrier of all ranks (train.py:4) for rank 1" in err
    assert err.endswith("train.py failed (exit code 1)\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--timeline", "x.txt"], "x.txt: the file name must end in .html or .json"),
        (["--timeline", "nowhere/x.html"], "there is no folder nowhere"),
        (["--gpu", "h10"], "unknown GPU 'h10'"),
        (["--nproc-per-node", "0"], "give a positive number"),
        (["--nnodes", "-1"], "--nnodes -1: give a positive number"),
        (["--nnodes", "2"], "--network hdr"),
        (["--nnodes", "2", "--network", "hd"], "unknown network 'hd'"),
        (["--nproc-per-node", "16"], "more nodes and a network"),
        (["--nnodes", "80", "--network", "hdr"], "160 ranks cannot run at once"),
        (["--ranks", "0"], "--shapes-only"),
        (["--ranks", "0,x", "--shapes-only"], "--ranks 0,x: give numbers"),
        (["--ranks", "1", "--shapes-only"], "0 first"),
    ],
)
def test_options_are_checked_before_the_run(launch, capsys, options, message):
    with pytest.raises(SystemExit, match="2"):
        launch("print('ran')\n", options=options)
    out, err = capsys.readouterr()
    assert (out, message in err) == ("", True)


TRAIN = WORK + (
    "import os, torch.distributed as dist\n"
    "dist.init_process_group()\n"
    "local = int(os.environ['LOCAL_RANK'])\n"
    "torch.accelerator.set_device_index(local)\n"
    "device = torch.device(device.type, local)\n"
    "model = torch.nn.Linear(500, 500).to(device)\n"
    "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local])\n"
    "optimizer = torch.optim.SGD(model.parameters())\n"
    "for _ in range(3):\n"
    "    model(x.to(device)).sum().backward()\n"
    "    optimizer.step()\n"
    "    optimizer.zero_grad()\n"
    "print(os.environ['GROUP_RANK'], local, dist.get_rank(), dist.get_world_size())\n"
)


@pytest.mark.long
def test_nodes_and_folding(launch):
    nodes = [*GPUS, "--shapes-only", "--network", "ndr", "--nnodes"]
    code, full, err = launch(TRAIN, options=[*nodes, "2"])
    assert (code, err) == (0, "")
    assert sorted(full.splitlines()[:4]) == ["0 0 0 4", "0 1 1 4", "1 0 2 4", "1 1 3 4"]
    title = "simulated, not measured: 2 nodes of 2 x h100 on nvlink4, joined by ndr"
    assert full.splitlines()[4] == title
    code, folded, err = launch(TRAIN, options=[*nodes, "2", "--ranks", "0"])
    assert (code, err) == (0, "")
    assert folded.splitlines()[:2] == ["0 0 0 4", f"{title}; rank 0 in place of all 4"]
    assert folded.splitlines()[2:] == full.splitlines()[5:]
    code, large, err = launch(TRAIN, options=[*nodes, "512", "--ranks", "0,1"])
    assert (code, err) == (0, "")
    assert "512 nodes" in large
    assert "ranks 0, 1 in place of all 1024" in large


def test_a_rank_in_place_of_others_fails_by_its_own_name(launch):
    source = "import torch\ntorch.empty(2**40, device='sim')\n"
    code, _, err = launch(source, options=["--ranks", "0", "--shapes-only"])
    assert code == 1
    assert "[rank0]: torch.OutOfMemoryError: " in err
    assert "rank1" not in err
    assert "train.py failed on rank 0 (exit code 1)" in err


def test_the_gpu_of_a_rank_that_does_not_run_asks_for_it(launch):
    source = "import torch\nassert torch.cuda.device_count() == 2\ntorch.ones(1, device='cuda:1')\n"
    code, _, err = launch(source, options=["--ranks", "0", "--shapes-only"])
    assert code == 1
    assert "there is no cuda:1" in err
    assert "name its rank in simgpu run --ranks to have it" in err


def test_rendezvous_options_are_ignored(launch):
    code, out, err = launch(TRAIN, options=GPUS)
    assert (code, err) == (0, "")
    several = ["--standalone", "--rdzv-backend", "c10d", "--rdzv_endpoint", "first:29400"]
    said = "without effect here: --rdzv-backend, --rdzv-endpoint, --standalone; the ranks are"
    again = launch(TRAIN, options=[*GPUS, *several, "--rdzv-id=7"])
    assert again == (0, out, f"simgpu run: {said} threads of one process\n")


def test_a_missing_script(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["nowhere.py"])
    assert "No such file or directory: 'nowhere.py'" in capsys.readouterr().err


def test_timelines(launch, tmp_path):
    source = WORK + (
        "import torch.distributed as dist\n"
        "dist.init_process_group()\n"
        "weight = torch.nn.Parameter(x[0].clone())\n"
        "optimizer = torch.optim.SGD([weight])\n"
        "for size in range(3):\n"
        "    (x @ weight).sum().backward()\n"
        "    dist.all_reduce(weight.grad)\n"
        "    optimizer.step()\n"
    )
    page, trace = tmp_path / "out.html", tmp_path / "out.json"
    assert launch(source, options=["--timeline", str(page)])[0] == 0
    _, out, _ = launch(source, options=["--timeline", str(trace)])
    timeline = Timeline.from_chrome(trace)
    assert timeline.start == 0
    assert {"rank 0 host", "rank 1 sim:1"} <= {device for device, _ in timeline.lanes()}
    text = page.read_text(encoding="utf-8")
    assert out.strip().splitlines()[0] in text
    assert not re.search(r"(src|href)=|@import|url\((?!#)", text)  # nothing from elsewhere
    assert "rank 1 sim:1 comm" in text


@pytest.mark.parametrize("name", ["out.html", "out.json"])
def test_a_timeline_that_cannot_be_written_costs_no_summary(name, launch, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    target = tmp_path / name
    target.write_text("an older one")
    monkeypatch.setattr(Path, "replace", full)
    code, out, err = launch(WORK, options=["--timeline", str(target)])
    assert code == 1
    assert out.startswith("simulated, not measured")
    assert f"--timeline {target}: No space left on device; the summary is complete" in err
    assert target.read_text() == "an older one"
    assert not [*tmp_path.glob(".out*")]


def test_a_folder_is_no_timeline(launch, tmp_path, capsys):
    (tmp_path / "x.json").mkdir()
    with pytest.raises(SystemExit):
        launch("print('ran')\n", options=["--timeline", str(tmp_path / "x.json")])
    assert "x.json: this is a folder; give a file" in capsys.readouterr().err


def test_a_terminal_that_cannot_show_all_letters(launch, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert launch(WORK)[0] == 0
    out.seek(0)
    assert "?s" in out.read()  # for microseconds


def test_shapes_only(launch):
    source = WORK + "y = (x @ x).sum()\nprint(y.item())\n"
    assert "125000000.0\n" in launch(source)[1]
    code, out, _ = launch(source, options=["--shapes-only"])
    assert code == 0
    assert out.startswith("nan\nnan\n")
    assert "step time" in out


def test_a_check_for_finite_losses_passes_with_shapes_only(launch):
    source = WORK + (
        "import math\n"
        "loss = (x @ x).sum()\n"
        "numbers = loss.item(), 2 * loss.item() / 3, -loss.bfloat16().item(), loss.cpu().item()\n"
        "print([math.isfinite(number) and not math.isnan(number) for number in numbers])\n"
        "print(math.isfinite(loss), math.isnan(math.nan), math.isfinite(math.inf))\n"
    )
    before = math.isfinite
    code, out, _ = launch(source, options=["--shapes-only"])
    assert code == 0
    assert out.startswith(2 * f"{[True] * 4}\nTrue True False\n")
    assert math.isfinite is before


def test_steps_that_take_no_time(launch, tmp_path):
    source = WORK + (
        "optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])\n"
        "for _ in range(2):\n"
        "    optimizer.step()\n"
    )
    page = tmp_path / "out.html"
    code, _, _ = launch(source, options=["--timeline", str(page)])
    assert (code, page.exists()) == (0, True)


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_it(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(WORK + "print('go', flush=True)\nwhile True:\n    x = x * 0.5\n")
    process = subprocess.Popen(
        [*COMMAND, str(script)], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, f"{CLOCK}simgpu run: interrupted\n")


@pytest.mark.process
def test_a_closed_output_pipe_prints_no_traceback(tmp_path):
    (tmp_path / "train.py").write_text(WORK)
    page, command = tmp_path / "out.html", [*COMMAND, "--timeline"]
    read_end, write_end = os.pipe()
    os.close(read_end)  # as `head` does when it has its lines
    done = subprocess.run(
        [*command, page, tmp_path / "train.py"],
        env=ENV, stdout=write_end, stderr=subprocess.PIPE, timeout=240,
    )  # fmt: skip
    os.close(write_end)
    assert (done.returncode, done.stderr, page.exists()) == (1, CLOCK.encode(), True)
