"""The scripts that share sequences and experts train as one process does, on gloo and simulated."""

import subprocess
import sys

import pytest
from support.paths import CHAPTERS
from support.scripts import losses_and_norms

from d2lmini.ddp import launcher_environment, torchrun_command


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("name", ["ring", "experts"])
def test_four_ranks_have_the_losses_of_one(name):
    script = str(CHAPTERS / "scripts" / f"{name}.py")
    alone = losses_and_norms(torchrun_command(script, "--cpu", nproc_per_node=1))
    assert len(alone) == 5
    assert alone[-1] < alone[0] - 0.3
    assert losses_and_norms(torchrun_command(script, "--cpu", nproc_per_node=4)) == pytest.approx(
        alone, abs=2e-4
    )
    launcher = [sys.executable, "-m", "simgpu", "run", "--nproc-per-node", "4", script]
    assert losses_and_norms(launcher) == pytest.approx(alone, abs=2e-4)


@pytest.mark.long
@pytest.mark.process
def test_what_ranks_do_not_divide_is_refused():
    script = str(CHAPTERS / "scripts" / "experts.py")
    command = torchrun_command(script, "--cpu", "--experts", "7", nproc_per_node=2)
    done = subprocess.run(command, env=launcher_environment(), capture_output=True, text=True)
    assert "--experts 7: give a multiple of the ranks" in done.stderr
