"""The README of simgpu: its command prints what stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "simgpu" / "README.md").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.process
def test_the_script_prints_what_the_readme_says(tmp_path):
    script = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1]
    command, printed = re.search(r"```\n\$ simgpu (.*?)\n(.*?)```", TEXT, re.DOTALL).groups()
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "simgpu", *command.split()],
        cwd=tmp_path, capture_output=True, text=True, check=True, env=_environment(),
    )  # fmt: skip
    assert done.stdout == printed


@pytest.mark.process
def test_a_check_prints_what_the_readme_says(tmp_path):
    command, printed = re.search(r"```\n\$ simgpu (check .*?)\n(.*?)```", TEXT, re.DOTALL).groups()
    script = (ROOT / "chapters/scripts/ddp_plain.py").read_text(encoding="utf-8")
    without, count = re.subn(r"DistributedDataParallel\((net.to\(device\))\)", r"\1", script)
    assert count == 1
    (tmp_path / "ddp_plain.py").write_text(without, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "simgpu", *command.split()],
        cwd=tmp_path, capture_output=True, text=True, env=_environment(),
    )  # fmt: skip
    assert (done.stdout, done.returncode) == (printed, 1)


def _environment():
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_links_lead_somewhere(target):
    assert (ROOT / "simgpu" / target).exists()


def test_its_figures_of_errors_are_those_of_the_page_on_trust():
    page = (ROOT / "chapters" / "how-far-to-trust-the-clock.md").read_text(encoding="utf-8")
    total, steps = re.search(r"with (\S+) published measurements. (\S+) of\s", TEXT).groups()
    assert f"predicts {total.replace(',', '')} of those results" in page
    counts = re.findall(r"- (\d+) results are (?:further )?training steps", page)
    assert int(steps.replace(",", "")) == sum(map(int, counts))
    most = re.search(r"really took up to (\S+) times", TEXT)[1]
    assert f"steps really took up to {most} times as long" in page
    median, pairs, worst = re.search(
        r"gains is off by (\S+) % in the median of (\d+) programs, and by (\S+) % at worst", TEXT
    ).groups()
    assert f"The authors of {pairs} pairs ran the same program" in page
    assert re.search(rf"It is off by {median}% in the median and by {worst}% at\s+worst", page)
