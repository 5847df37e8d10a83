"""The page on scripts of your own: its command prints what stands there."""

import os
import re
import subprocess
import sys
from operator import truediv as divide

import pytest
import torch._dynamo
from support.paths import ROOT

from simgpu.__main__ import main
from simgpu.hardware.assumptions import COMPILED_CALL, LAUNCH_OVERHEAD
from simgpu.network import build_cluster, cost
from tools import own_script

TEXT = (ROOT / "chapters" / "bring-your-own-script.md").read_text(encoding="utf-8")
SMALL, LARGE = own_script.commands()[:2]
PHONE = 41  # letters of code in a line 390 pixels wide


@pytest.fixture
def printed_by(tmp_path):
    """Return a function that runs one of the page's first two commands: what it prints."""
    script = str(ROOT / "tests/frameworks/scripts/small_gpt.py")

    def run(*options, command=LARGE):
        words = command.replace("small_gpt.py", " ".join((*options, script))).split()
        return subprocess.run(
            [sys.executable, "-m", "simgpu", *words],
            cwd=tmp_path, capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        ).stdout  # fmt: skip

    return run


def rounded(said, found) -> bool:
    """Return whether a number of the prose is one of those that were printed, rounded."""
    digits = len(said.partition(".")[2])
    return said in {f"{float(number):.{digits}f}" for number in found}


@pytest.mark.exhaustive
@pytest.mark.process
def test_the_command_prints_what_the_page_says(printed_by):
    stored = re.search(r"\n\.\.\.\n(time .*?)```", TEXT, re.DOTALL)[1]
    assert stored in printed_by()


def losses(printed):
    """Return the steps of a script, their losses and norms."""
    lines = re.findall(r"^step (\d+) loss (\S+) norm (\S+)$", printed, re.MULTILINE)
    return {int(step): (float(loss), float(norm)) for step, loss, norm in lines}


@pytest.mark.exhaustive
@pytest.mark.process
def test_the_small_model_learns_as_the_page_says(printed_by):
    said, found = losses(TEXT), losses(printed_by(command=SMALL))
    assert found.keys() >= said.keys()
    assert found[0] == pytest.approx(said[0], rel=1e-3)
    # Processors round products in bfloat16 differently: by step 5 two had norms 1.3 % apart.
    for step, (loss, norm) in said.items():
        assert found[step] == (pytest.approx(loss, rel=1e-3), pytest.approx(norm, rel=0.03))
    assert said[5][0] < 0.95 * said[0][0]


def test_the_first_commands_fit_a_phone_and_their_losses_are_numbers():
    first = re.findall(r"```\n(\$ simgpu run (?:.*\\\n)*.*)\n", TEXT)[:2]
    assert max(map(len, "\n".join(first).splitlines())) <= PHONE
    assert "nan" not in TEXT[: TEXT.index("--shapes-only")]


@pytest.mark.long
@pytest.mark.process
def test_the_prose_names_times_and_shares_that_were_printed(printed_by):
    printed = printed_by("--ranks", "0")  # all eight make their weights: 20 seconds
    times = [*re.findall(r"it has measured (\S+) ms", TEXT), *re.findall(r"it took (\S+) ms", TEXT)]
    assert len(times) == 2
    assert all(rounded(time, re.findall(r"time (\S+) ms", printed)) for time in times)
    launcher, trainer = re.search(r"Here these are (\S+) % and (\S+) %", TEXT).groups()
    assert f"MFU                    {launcher} %" in printed
    assert rounded(trainer, re.findall(r"MFU (\d\S*) %", printed))


@pytest.mark.exhaustive
@pytest.mark.process
def test_a_slow_gpu_is_named_as_the_page_says(printed_by):
    printed = printed_by("--slow", "2:1.5x")
    slow, usual = re.search(r"takes (\S+) ms instead of (\S+), and its summary says", TEXT).groups()
    (line,) = re.findall(r"\n(  waiting for others .* for rank \d.*)\n", TEXT)
    assert line in printed.splitlines()
    assert f"step time              {slow} ms" in printed
    assert f"step time              {usual} ms" in TEXT


def test_the_prose_counts_the_kernels_that_were_printed():
    eager, all_ = re.search(
        r"only these, (\d+) of the (\d+) kernels of a step above", TEXT
    ).groups()
    assert f"\nkernels                {all_} a step " in TEXT
    assert f" to launch {eager} kernels of eager code" in TEXT


def test_the_picture_is_of_a_step_of_that_length():
    step = re.search(r"time (\S+) ms, \S+ tokens/s", TEXT)[1]
    picture = (ROOT / "chapters/img/own-script.svg").read_text(encoding="utf-8")
    drawn = re.search(r"spans, (\S+) ms", picture)[1]
    assert rounded(step, [drawn]), "run python -m tools.own_script"


@pytest.mark.process
def test_the_plan_is_what_the_page_says(capsys):
    command, stored = re.search(r"```\n\$ simgpu (plan .*?)\n(.*?)```", TEXT, re.DOTALL).groups()
    assert main(command.split()) == 0
    assert capsys.readouterr().out == stored


@pytest.mark.exhaustive
def test_the_search_is_what_the_page_says(capsys):
    command, stored = re.search(
        r"```\n\$ simgpu (plan [^\n]* --search)\n(.*?)```", TEXT, re.DOTALL
    ).groups()
    assert main(command.split()) == 0
    assert capsys.readouterr().out == stored


@pytest.mark.long
@pytest.mark.slow
def test_the_cheapest_run_is_what_the_page_says(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prices = re.search(r"```json\n(\{\n \"format\": \"simgpu prices.*?)```", TEXT, re.DOTALL)[1]
    (tmp_path / "prices.json").write_text(prices, encoding="utf-8")
    command, stored = re.search(
        r"```\n\$ simgpu (plan [^\n]* --cheapest [^\n]*)\n(.*?)```", TEXT, re.DOTALL
    ).groups()
    assert main(command.split()) == 0
    assert capsys.readouterr().out.startswith(stored)


def test_the_memory_of_the_host_matters_as_the_page_says():
    link, word = re.search(r"and `(pcie5:\S+)` says which: eight .*? (\w+) times as", TEXT).groups()
    times = (
        cost("all_reduce", 2**30, range(8), build_cluster(8, "rtx5090", name)).seconds
        for name in (link.rpartition(":")[0], link)
    )
    assert {"three": 3}[word] == pytest.approx(divide(*times), abs=0.5)


@pytest.mark.slow
def test_the_comparison_is_what_the_page_says(capsys):
    command, stored = re.search(r"```\n\$ simgpu (compare .*?)\n(.*?)```", TEXT, re.DOTALL).groups()
    assert main(command.split()) == 0
    assert capsys.readouterr().out == stored


@pytest.fixture
def compiled_on_the_page(tmp_path):
    """Return a function that runs the page's compiled script and returns what it prints."""
    script = re.search(r"```python\n(import torch\n.*?)```", TEXT, re.DOTALL)[1]

    def run(*options, first_line=""):
        changed = script.replace("        y = self", f"{first_line}        y = self")
        (tmp_path / "blocks.py").write_text(changed, encoding="utf-8")
        words = ["-m", "simgpu", "run", "--gpu", "h100", "--shapes-only", *options, "blocks.py"]
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        ).stdout  # fmt: skip

    return run


def parts_after(command):
    """Return what the page says that a command prints, in the parts between `...`."""
    stored = re.search(rf"\$ simgpu {command}\n\.\.\.\n(.*?)(?:```|\$ simgpu)", TEXT, re.DOTALL)[1]
    return stored.split("...\n")


@pytest.mark.long
@pytest.mark.process
def test_compiled_blocks_take_what_the_page_says(compiled_on_the_page, tmp_path):
    for options, run in (("", ["--timeline", "step.json"]), ("--eager ", ["--eager"])):
        printed = compiled_on_the_page(*run)
        parts = parts_after(f"run --gpu h100 --shapes-only {options}blocks.py")
        assert [part for part in parts if part not in printed] == []
    kernel = re.search(r"names like Inductor's: `(\w+)`", TEXT)[1]
    assert f'"{kernel}"' in (tmp_path / "step.json").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.process
def test_a_line_breaks_the_graphs_that_the_page_names(compiled_on_the_page):
    line = re.search(r"With `(print\(.*?\))` as the first line of `forward`", TEXT)[1]
    stored = re.search(r"ends\s+with\n\n```text\n(.*?)```", TEXT, re.DOTALL)[1]
    printed = compiled_on_the_page(first_line=f"        {line}\n")
    assert printed.endswith(stored)
    assert "`.item()` returns `nan`" in TEXT
    assert printed.count("nan\n") == int(re.search(r"\((\d+) times\)", stored)[1])


def test_how_wrong_a_gain_is_comes_from_the_record():
    (line,) = own_script.GAIN.findall(TEXT)
    assert line == own_script.compared(), "python -m tools.own_script writes it"


def test_the_host_takes_what_the_page_says_for_a_graph():
    call, kernel = re.search(
        r"takes the host (\d+) µs, and each of its\s+kernels (\d+) µs", TEXT
    ).groups()
    assert (int(call), int(kernel)) == (round(COMPILED_CALL * 1e6), round(LAUNCH_OVERHEAD * 1e6))


def test_the_page_knows_how_many_shapes_pytorch_compiles():
    most = re.search(r"`dynamic=False` \| each of the first (\d+) sets", TEXT)[1]
    assert int(most) == torch._dynamo.config.recompile_limit


@pytest.mark.long
@pytest.mark.process
def test_the_profiler_shows_what_the_page_says(tmp_path):
    script = re.search(r"```python\n([^`]*import profile, .*?)```", TEXT, re.DOTALL)[1]
    (tmp_path / "profiled.py").write_text(script, encoding="utf-8")
    found = re.search(r"\$ simgpu (run [^\n]* profiled\.py)\n(.*?)\.\.\.\n", TEXT, re.DOTALL)
    command, stored = found.groups()
    done = subprocess.run(
        [sys.executable, "-m", "simgpu", *command.split()], cwd=tmp_path, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True,
    )  # fmt: skip
    assert done.stdout.startswith(stored)
    assert (tmp_path / "rank1.json").exists()
    shown = re.search(r"an all-reduce takes half of (\S+) µs", TEXT)[1]
    assert f"ncclDevKernel_AllReduce   2     0.0   {shown} us" in stored


@pytest.mark.long
@pytest.mark.process
def test_the_viewer_of_pytorch_shows_the_snapshot_of_the_page(tmp_path):
    script = re.search(r"```python\n([^`]*_record_memory_history.*?)```", TEXT, re.DOTALL)[1]
    (tmp_path / "snapshot.py").write_text(script, encoding="utf-8")
    words = re.search(r"simgpu (run snapshot.py)\npython -m (\S+) (.*)\n", TEXT)
    for module, options in (("simgpu", words[1]), (words[2], words[3])):
        subprocess.run(
            [sys.executable, "-m", module, *options.split()], cwd=tmp_path, check=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True,
        )  # fmt: skip
    assert "Active Memory Timeline" in (tmp_path / "memory.html").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.process
def test_the_tool_of_pytorch_reads_what_a_hang_leaves(tmp_path):
    script = re.search(r"```python\n([^`]*if rank != 2:\n.*?)```", TEXT, re.DOTALL)[1]
    (tmp_path / "hang.py").write_text(script, encoding="utf-8")
    found = re.search(
        r"\$ export (.*)\n\$ simgpu (.*)\n\.\.\.\n(.*?)\$ torchfrtrace (.*?)\n(.*?)\.\.\.",
        TEXT,
        re.DOTALL,
    )
    variables, command, said, options, printed = found.groups()
    own = dict(pair.split("=") for pair in variables.split())

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | own,
        )  # fmt: skip

    done = run("simgpu", *command.split())
    assert done.returncode == 1
    assert said in done.stderr
    done = run("torch.distributed.flight_recorder.fr_trace", *options.split())
    assert (done.stdout + done.stderr).startswith(printed)
    assert "at hang.py:10" in done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.process
def test_gpus_wait_for_a_loader_as_the_page_says(tmp_path):
    script = re.search(r"```python\n(from torch import nn.*?)```", TEXT, re.DOTALL)[1]
    (tmp_path / "images.py").write_text(script, encoding="utf-8")
    command = re.search(r"\$ simgpu (run .* images.py)\n", TEXT)[1]
    printed = subprocess.run(
        [sys.executable, "-m", "simgpu", *command.split()], cwd=tmp_path, capture_output=True,
        text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    ).stdout  # fmt: skip
    assert [part for part in parts_after(command) if part not in printed] == []


@pytest.mark.long
@pytest.mark.process
def test_a_kernel_of_ones_own_takes_what_the_page_says(tmp_path):
    script = re.search(r"```python\n(import simgpu\n.*?)```", TEXT, re.DOTALL)[1]
    stated, unstated = re.search(r"prints (\S+) ms; without .* print (\S+) ms", TEXT).groups()
    statement = re.search(r"simgpu.register_kernel\(.*?\n\)\n", script, re.DOTALL)[0]
    to_pytorch = """
from torch.utils.flop_counter import register_flop_formula

@register_flop_formula(torch.ops.mylib.fused_mlp)
def flops(x, up, down, **_):
    return 2 * x[0] * (up[0] * up[1] + down[0] * down[1])
"""
    for instead, time in ((statement, stated), ("", unstated), (to_pytorch, stated)):
        (tmp_path / "fused.py").write_text(script.replace(statement, instead), encoding="utf-8")
        words = ["-m", "simgpu", "run", "--gpu", "h100", "--shapes-only", "fused.py"]
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert f"{time} ms" in done.stdout.splitlines()


@pytest.fixture
def checked(tmp_path):
    """Return a function that runs a command of the page on a script of the book, with changes."""

    def run(command, line, new):
        name = command.split()[1]
        text = (ROOT / "chapters" / "scripts" / name).read_text(encoding="utf-8")
        assert text.count(line) == 1
        (tmp_path / name).write_text(text.replace(line, new), encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-m", "simgpu", *command.split()], cwd=tmp_path, capture_output=True,
            text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    return run


def commands_of(what):
    """Return the commands of the page that begin so, and what it says that they print."""
    return re.findall(rf"```\n\$ simgpu ({what} [^\n]*)\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.long
@pytest.mark.process
def test_a_check_finds_what_the_page_says(checked):
    (command, stored), *_ = commands_of("check ddp_plain.py")
    new = re.search(r"with the line `(model = .*?)` in place of the one marked `# 6`", TEXT)[1]
    line = "model = DistributedDataParallel(net.to(device))  # 6"
    done = checked(command, line, new)
    assert (done.stdout, done.returncode) == (stored, 1)
    done = checked(command, line, line)
    assert done.stdout.startswith("equal: ")
    assert "As it stands in the book, it is `equal`." in TEXT


@pytest.mark.long
@pytest.mark.process
def test_a_change_of_sharding_turns_a_check_red_as_on_the_page(checked):
    (record, first), (against, second) = commands_of("check fsdp_plain.py")
    line = "fully_shard(block, mp_policy=policy)"
    change = re.search(r"somebody adds `(reshard_after_forward=False)`", TEXT)[1]
    done = checked(record, line, line)
    assert (done.stdout, done.returncode) == (first, 0)
    done = checked(against, line, f"{line[:-1]}, {change})")
    assert (done.stdout, done.returncode) == (second, 1)
