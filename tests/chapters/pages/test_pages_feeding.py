"""What the chapter on feeding runs and reads: its script, summaries, its queue."""

import ast
import re
import subprocess
import sys

import nbformat
import pytest
import torch
from support.paths import CHAPTERS

from d2lmini.ddp import launcher_environment, torchrun_command
from d2lmini.pages.feeding import cpu_seconds, seconds_in, share_of_input
from simgpu.run.loader.supply import Supply

SCRIPT = str(CHAPTERS / "scripts" / "loader.py")
SMALL = ["--size=32", "--width=64", "--depth=1", "--images=64", "--batch-size=8", "--workers=1"]
SUMMARY = """\
step time              43.1 ms             median of 3
limited by             input               nothing runs
  input                71.3 %
input                  56.8 %              of the time the GPUs wait: a batch every 1.2 s (as given)
"""


def lines_of(command):
    how = {"capture_output": True, "text": True, "timeout": 250}
    done = subprocess.run(command, env=launcher_environment(), **how)
    assert done.returncode == 0, done.stderr
    return re.findall(r"step \d+: loss \S+", done.stdout)


@pytest.mark.long
@pytest.mark.process
def test_the_script_resumes_in_mid_epoch_on_other_devices(tmp_path):
    saved = str(tmp_path / "saved.pt")
    first = ["--cpu", "--steps", "1", "--save", saved]
    assert len(lines_of(torchrun_command(SCRIPT, *SMALL, *first, nproc_per_node=1))) == 1
    assert torch.load(saved)["at"] == {"epoch": 0, "done": 8}
    launcher = [sys.executable, "-m", "simgpu", "run", "--nproc-per-node", "1"]
    rest = lines_of([*launcher, SCRIPT, *SMALL, "--resume", saved])
    assert len(rest) == 64 // 8 - 1
    assert "nan" not in " ".join(rest)


def test_numbers_of_a_summary():
    assert seconds_in(SUMMARY, "step time") == pytest.approx(0.0431)
    assert seconds_in(SUMMARY, "a batch every") == 1.2
    assert share_of_input(SUMMARY) == 0.568
    assert share_of_input("step time  1 ms") == 0
    with pytest.raises(ValueError, match="no time behind 'peak'"):
        seconds_in(SUMMARY, "peak")


def test_the_cheapest_call_counts():
    sizes = iter([10**6, 10, 10**6])
    assert cpu_seconds(lambda: sum(range(next(sizes))), 3) < cpu_seconds(
        lambda: sum(range(10**6)), 1
    )


def waits():
    """Return the chapter's function."""
    for cell in nbformat.read(CHAPTERS / "feeding.ipynb", 4).cells:
        if cell.cell_type == "code" and "def waits" in cell.source:
            names = {}
            exec(compile(ast.parse(cell.source), "waits", "exec"), names)
            return names["waits"]
    raise AssertionError("the chapter has no function waits")


@pytest.mark.parametrize(("workers", "prefetch"), [(1, 1), (3, 2), (4, 8)])
def test_the_queue_of_the_chapter_is_that_of_the_simulator(workers, prefetch):
    seconds = torch.rand(200, generator=torch.Generator().manual_seed(0)).tolist()
    supply, now, expected = Supply(0.0, workers * prefetch), 0.0, []
    for i, each in enumerate(seconds):
        _, made = supply.make(now, each, i % workers, i)
        expected.append(max(made - now, 0.0))
        now = max(made, now)
        supply.take(now)
        now += 0.2
    assert waits()(seconds, workers, prefetch, 0.2) == pytest.approx(expected)
