"""A test or a cell that does not end fails by its name, and the run goes on."""

import os
import re
import subprocess
import sys

import nbformat
import pytest
from support.paths import ROOT

TESTS = """
import time
import simgpu as sim

def test_before():
    pass

def test_loop():
    while True:
        time.sleep(0.01)

def test_ranks():
    # Rank 0 loops, rank 1 waits at its semaphore for its turn.
    def program(rank):
        while True:
            pass

    sim.spawn(program, nprocs=2)

def test_after():
    pass
"""


def run(path, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-n", "1", "--dist", "loadfile", "-p", "support.suite.scheduler"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(path.parent), *options]
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
    return subprocess.run([*command, str(path)], env=env, capture_output=True, text=True).stdout


@pytest.mark.exhaustive
def test_a_test_that_does_not_end_fails_by_its_name(tmp_path):
    path = tmp_path / "test_hangs.py"
    path.write_text(TESTS)
    said = run(path, "--timeout", "10")
    for name in ("loop", "ranks"):
        assert f"crashed while running 'test_hangs.py::test_{name}'" in said
    assert "2 failed, 2 passed" in said.splitlines()[-1]


@pytest.mark.exhaustive
def test_a_cell_that_does_not_end_fails_by_its_name(tmp_path):
    path = tmp_path / "hangs.ipynb"
    cells = map(nbformat.v4.new_code_cell, ["1 + 1", "while True:\n    pass", "2 + 2"])
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)
    said = run(path, "--nbval-lax", "--nbval-cell-timeout", "2")
    assert re.search("FAILED .*hangs.ipynb::Cell 1", said)
    assert "Timeout of 2 seconds exceeded" in said


def test_every_test_has_a_limit(pytestconfig):
    assert float(pytestconfig.getini("timeout")) <= 300
    assert pytestconfig.getini("timeout_method") == "thread"
