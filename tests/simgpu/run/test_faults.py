"""What the launcher lets go wrong: a slow GPU, a killed rank, and torchrun's restarts."""

import json
import os
import re
import subprocess
import sys

import pytest

import simgpu as sim
from simgpu.run.faults import parse

TRAIN = """
import os, torch
ROWS, WIDTH = 16, 64
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group()
rank, restart = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
device = torch.accelerator.current_accelerator()
model = DDP(torch.nn.Linear(WIDTH, WIDTH).to(device))
optimizer = torch.optim.SGD(model.parameters())
def train(steps):
    for step in steps:
        model(torch.ones(ROWS, WIDTH, device=device)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield step + 1
"""
PLAIN = f"{TRAIN}list(train(range(4)))\n"
LARGE = PLAIN.replace("16, 64", "4096, 2048")


@pytest.fixture
def summary(simgpu_run):
    """Run a script on 4 ranks (unless the options say otherwise); return the summary."""

    def run(source, *options):
        options = "--nproc-per-node", "4", "--shapes-only", "--summary", "json", *options
        code, out, err = simgpu_run(source, *options)
        assert code == 0, err
        return json.loads(out.splitlines()[-1])

    return run


def kernels():
    """Return the durations of the kernels of each rank."""
    found = {}
    for span in sim.trace():
        if span.engine == "compute":
            found.setdefault(int(span.device.split()[1]), []).append(span.duration)
    return found


def test_all_kernels_of_a_slow_gpu_take_so_many_times_as_long(summary):
    alone = "import torch\ndevice = torch.accelerator.current_accelerator()\n"
    alone += "x = torch.ones(2048, 2048, device=device).bfloat16()\n(x @ x + x).relu().sum()\n"
    summary(alone, "--slow", "2:1.5x", "--slow", "0:3")
    usual = kernels()
    assert len(usual[1]) == 6
    assert usual[3] == usual[1]
    assert usual[2] == pytest.approx([1.5 * seconds for seconds in usual[1]])
    assert usual[0] == pytest.approx([3 * seconds for seconds in usual[1]])


@pytest.mark.slow
def test_the_others_wait_for_a_slow_rank(summary):
    plain, slow = summary(LARGE), summary(LARGE, "--slow", "2:1.5x")
    assert slow["hardware"] == f"{plain['hardware']}; the GPU of rank 2 is 1.5 times as slow"
    assert 1.3 < slow["step_time_seconds"] / plain["step_time_seconds"] < 1.5
    waiting = [run["time_shares"]["waiting for others"] for run in (plain, slow)]
    assert waiting[0] < 0.01
    assert waiting[1] > 0.1
    assert plain["waited_for"] is None
    late = slow["waited_for"]
    assert (late["ranks"], late["cause"], late["each"]) == ([2], "compute", "step")
    assert late["work"] == pytest.approx(1, rel=0.01)
    assert late["own_seconds"] == pytest.approx(1.5 * late["others_seconds"], rel=0.01)
    assert slow["peak_flop_per_second"] == plain["peak_flop_per_second"]


def test_a_slow_network_card(summary):
    two = "--nnodes", "2", "--nproc-per-node", "2", "--network", "25GB/s:2"
    plain, slow = summary(LARGE, *two), summary(LARGE, *two, "--slow-card", "3:8x")
    assert slow["hardware"] == f"{plain['hardware']}; the network card of rank 3 is 8 times as slow"
    assert slow["step_time_seconds"] > 1.5 * plain["step_time_seconds"]


def test_of_a_slow_gpu_it_is_still_known_what_limits_a_kernel(summary):
    bound = "import torch\ndevice = torch.accelerator.current_accelerator()\n"
    bound += "x = torch.ones(8192, 8192, device=device)\nfor _ in range(9):\n    y = x @ x[:, :2]\n"
    slow = [option for rank in range(4) for option in ("--slow", f"{rank}:2x")]
    for found in (summary(bound), summary(bound, *slow)):
        assert found["limited_by"] == "memory bandwidth"
        assert found["time_shares"]["compute"] == 0


@pytest.mark.parametrize(
    ("slow", "kill", "message"),
    [
        (["2"], None, "--slow 2: give a rank and a factor, such as 2:1.5x"),
        (["2:0x"], None, "--slow 2:0x: give a rank and a factor"),
        (["2:-1x"], None, "--slow 2:-1x: give"),
        ([], "3", "--kill 3: give a rank and a step, counted from 1, such as 3@step5"),
        ([], "3@step0", "--kill 3@step0: give"),
    ],
)
def test_what_cannot_be_read(slow, kill, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(slow, kill)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--slow", "4:2x"], "--slow 4: there is no such rank; give one from 0 to 3"),
        (["--kill", "9@step1"], "--kill 9: there is no such rank; give one from 0 to 3"),
        (["--kill", "0@step1", "--ranks", "0"], "--kill: needs all ranks"),
        (["--slow", "2:1.5x", "--ranks", "0", "--shapes-only"], "--slow: needs all ranks"),
        (["--slow-card", "2:2"], "has no network cards that could be slow"),
        (["--slow-card", "7:2x"], "--slow-card 7: there is no such rank"),
    ],
)
def test_ranks_that_do_not_run(summary, capsys, options, message):
    with pytest.raises(SystemExit, match="2"):
        summary(PLAIN, *options)
    assert message in capsys.readouterr().err


KILLED = f"""{TRAIN}
try:
    for step in train(range(5)):
        print(f"rank {{rank}} has made step {{step}}")
finally:
    print(f"rank {{rank}} cleans up")
"""


def test_a_killed_rank_does_nothing_more_and_the_others_wait_for_it(simgpu_run):
    code, out, err = simgpu_run(KILLED, "--nproc-per-node", "3", "--kill", "1@step3")
    assert code == 137
    steps = re.findall(r"rank (\d) has made step (\d)", out)
    by_rank = {rank: [step for r, step in steps if r == rank] for rank in "012"}
    assert by_rank == {"0": ["1", "2", "3"], "1": ["1", "2"], "2": ["1", "2", "3"]}
    assert "rank 1 cleans up" not in out
    lines = err.splitlines()
    assert lines[1].startswith("simgpu run: rank 1 was killed (SIGKILL) in step 3; on real GPUs")
    assert "time-out of this collective" in lines[1]
    waits = r"  rank {} waits in all_reduce of \d+ float32, sum \(train.py:13\) for rank 1"
    assert re.fullmatch(waits.format(0), lines[2])
    assert re.fullmatch(waits.format(2), lines[3])


def test_the_others_write_what_they_have_called_and_the_killed_rank_does_not(
    simgpu_run, tmp_path, monkeypatch
):
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "10")
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", str(tmp_path / "rank_"))
    _, _, err = simgpu_run(KILLED, "--nproc-per-node", "3", "--kill", "1@step3")
    assert f"flight recorder: 2 files, up to {tmp_path}/rank_2;" in err
    assert not (tmp_path / "rank_1").exists()


def test_a_rank_that_nobody_needs_any_more_is_missed_all_the_same(simgpu_run):
    code, _, err = simgpu_run(PLAIN, "--nproc-per-node", "2", "--kill", "1@step4")
    assert code == 137
    assert err.endswith("simgpu run: rank 1 was killed (SIGKILL) in step 4\n")


def test_ranks_that_wait_for_a_killed_one_are_named_also_if_they_share_a_line(simgpu_run):
    code, _, err = simgpu_run(KILLED, "--nproc-per-node", "6", "--kill", "1@step3")
    assert code == 137
    assert re.search(r"until torchrun ends them:\n  ranks 0, 2-5 wait in .* for rank 1", err)


def test_the_summary_is_of_the_last_run_and_no_rank_is_killed_twice(summary):
    restarted = summary(PLAIN, "--kill", "1@step3", "--max-restarts", "1")
    assert restarted == summary(PLAIN)
    assert restarted["steps"] == 3


def test_all_ranks_start_again_from_a_checkpoint(simgpu_run, tmp_path):
    source = f"""{TRAIN}
file, begin = {str(tmp_path / "checkpoint.pt")!r}, 0
if os.path.exists(file):
    saved = torch.load(file, map_location=device)
    begin = saved["step"]
    model.load_state_dict(saved["model"])
for step in train(range(begin, 4)):
    if rank == 0:
        torch.save({{"step": step, "model": model.state_dict()}}, file)
    dist.barrier()
    print(restart, rank, step)
if rank == 0:
    print("sum", model.module.weight.sum().item())
"""
    plain = simgpu_run(source.replace("checkpoint.pt", "other.pt"), "--nproc-per-node", "2")
    options = "--nproc-per-node", "2", "--kill", "1@step3", "--max-restarts", "1"
    code, out, err = simgpu_run(source, *options)
    assert code == 0
    made = [line for line in out.splitlines() if re.fullmatch(r"\d \d \d", line)]
    # Rank 0 ends step 3 and saves it: its gradients had arrived.
    assert sorted(made) == ["0 0 1", "0 0 2", "0 1 1", "0 1 2", "1 0 4", "1 1 4"]
    sums = [re.search(r"sum (\S+)", text)[1] for text in (plain[1], out)]
    assert sums[0] == sums[1]
    assert err.endswith("simgpu run: all ranks start again: restart 1 of 1\n")


FAILS = """
import os, torch
x = torch.ones(9, device=torch.accelerator.current_accelerator() or "cpu") * 2
count, most = (os.environ[f"TORCHELASTIC_{name}"] for name in ("RESTART_COUNT", "MAX_RESTARTS"))
print(count, most, os.environ["RANK"], flush=True)
"""


@pytest.mark.process
@pytest.mark.exhaustive  # starts torchrun three times
def test_a_failure_restarts_all_ranks_as_torchrun_does(simgpu_run, tmp_path):
    source = f"{FAILS}assert count == '2'\n"
    (tmp_path / "real.py").write_text(source)
    options = ["--nproc-per-node", "2", "--max-restarts", "3", "--monitor-interval", "0.05"]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--local-addr", "127.0.0.1", *options, "--no-python"]
    command += [sys.executable, str(tmp_path / "real.py")]  # not `-u`, which mixes ranks' lines
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    code, out, err = simgpu_run(source, *options)
    assert code == 0
    assert err.count("AssertionError") == 2
    real, simulated = ({tuple(line.split()) for line in text.splitlines()}
                       for text in (done.stdout, "\n".join(out.splitlines()[:4])))  # fmt: skip
    assert {("0", "3", "0"), ("1", "3", "0"), ("2", "3", "0"), ("2", "3", "1")} == simulated
    assert simulated <= real


def test_the_last_failure_counts(simgpu_run):
    source = f"{FAILS}raise SystemExit(3 + int(count))\n"
    code, _, err = simgpu_run(source, "--max-restarts", "2")
    assert code == 5
    failed = [f"train.py failed on rank 0 (exit code {code})" for code in (3, 4, 5)]
    again = [f"all ranks start again: restart {count} of 2" for count in (1, 2)]
    said = [line.removeprefix("simgpu run: ") for line in err.splitlines()[1:]]
    assert said == [failed[0], again[0], failed[1], again[1], failed[2]]


def test_time_goes_on_over_restarts(simgpu_run):
    source = f"import time\n{FAILS}print('now', time.perf_counter())\ntime.sleep(5)\n"
    source += "assert count == '1'\n"
    _, out, _ = simgpu_run(source, "--max-restarts", "1")
    first, second = map(float, re.findall(r"now (\S+)", out))
    assert first < 1
    assert second > first + 5
