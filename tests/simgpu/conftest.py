"""Run the launcher, and `simgpu check`, in the process of the tests."""

import json
import sys

import pytest
import torch

from simgpu import naming
from simgpu.backend.pytorch.replacements import Replacements
from simgpu.check.command import main as check
from simgpu.clock.current import state
from simgpu.run.command import main
from simgpu.run.cuda import tracing


@pytest.fixture
def own_process(monkeypatch):
    """Make the launcher run in this process as if in its own."""
    if torch.accelerator.is_available() and not naming.is_accelerator():
        pytest.skip("needs a process without GPUs")
    monkeypatch.setattr(state, "machine", None)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def simgpu_run(own_process, tmp_path, capsys):
    """Run `simgpu run` with the words of a command on a script; return code, output, errors."""

    def run(source, *options, args=()):
        path = tmp_path / "train.py"
        path.write_text(source)
        capsys.readouterr()
        code = main([*options, str(path), *args])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def simgpu_check(own_process, tmp_path, capsys):
    """Run `simgpu check` on a script or its source; return code, output, report as a dict."""

    def run(source, *options, args=(), gpus=2):
        path = source
        if not hasattr(source, "read_text"):
            path = tmp_path / "train.py"
            path.write_text(source, encoding="utf-8")
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        words = ["--nproc-per-node", str(gpus), "--json", str(report), *options, str(path), *args]
        code = check(words)
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
        return code, capsys.readouterr(), found

    return run


@pytest.fixture
def compiler():
    """Let `torch.compile` make regions, as ``simgpu run`` does; what it has compiled."""
    compiled = tracing.Compiled(warn=lambda note: None, eager=False)
    with Replacements() as scoped:
        scoped.add(tracing.replacements(compiled))
        yield compiled
