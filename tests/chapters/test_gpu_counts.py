"""The table of what a notebook's cells do on machines with more and fewer GPUs."""

import os
import subprocess
import sys

import nbformat
import pytest
from support.paths import PYTHONPATH

CELLS = [
    "import torch\nfrom d2lmini import gpus, is_simulated, sim",
    "devices = gpus(2)",
    "x = torch.ones(3, device=devices[1])",
    "if is_simulated(devices[0]):\n    x + 1\nelse:\n    raise KeyError(0)",
    "words = 'one' if is_simulated(devices[1]) else 'two'",
    "y = 2 if x is None else 3",
    "torch.ones(3, device=gpus(1, gpu='v100')[0])",
    "torch.ones(3, device=gpus(1)[0]).cpu()",
]


@pytest.mark.exhaustive
def test_cells_that_depend_on_the_number_of_gpus_are_listed_with_what_they_do(tmp_path):
    cells = [nbformat.v4.new_markdown_cell("#"), *map(nbformat.v4.new_code_cell, CELLS)]
    path = tmp_path / "cells.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    command = [sys.executable, "-m", "support.gpu_counts", str(path), "--counts", "0", "2"]
    env = os.environ | {"PYTHONPATH": PYTHONPATH}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line[:1] == "|"]
    assert rows[0][2:] == ["0 GPUs", "2 GPUs"]
    assert {row[0]: row[2:] for row in rows[2:]} == {
        "[2]": ["2 simulated", "2 real"],
        "[3]": ["simulated", "real"],
        "[4]": [
            "simulated; if `is_simulated(devices[0])`",
            "fails: KeyError; not `is_simulated(devices[0])`",
        ],
        "[5]": ["-; if `is_simulated(devices[1])`", "-; not `is_simulated(devices[1])`"],
        "[8]": ["1 simulated", "1 real"],
    }
    assert "The other 3 cells do the same" in done.stdout
