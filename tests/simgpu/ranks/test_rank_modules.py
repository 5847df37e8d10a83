"""Each rank has its own state of modules, as processes have: compared with jobs on gloo."""

import importlib
import json
import os
import subprocess
import sys

import pytest
import torch.distributed as dist
from support.paths import TESTS

import simgpu as sim
from simgpu.run.command import main

PROGRAMS = TESTS / "support" / "programs" / "isolation"
JOB = str(PROGRAMS / "job.py")
NAMES = "keeps_state", "parallel_groups", "group_manager", "layers", "job"
ENV = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
ENV["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
OF_A_RANK = {
    "global": 2, "dictionary": {"rank": 2}, "list": [2], "context variable": 2,
    "class": [2, 2, {"rank": 2}], "registry": [{"Of2": 2, "OfAll": 2}, 2], "environment": "2",
    "default": 3, "cache": 2, "groups": [40.0, 40.0],
}  # fmt: skip


@pytest.fixture
def modules(monkeypatch):
    """Let the programs be found, and forget them afterwards."""
    monkeypatch.syspath_prepend(PROGRAMS)
    yield
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def launch(tmp_path, capsys, monkeypatch):
    """Run the launcher in this process; return the exit code and the errors."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(path, *args, ranks=4, options=()):
        code = main(["--nproc-per-node", str(ranks), *options, str(path), *map(str, args)])
        return code, capsys.readouterr().err

    return run


def results(path, ranks=4):
    return [json.loads(path.with_suffix(f".{rank}").read_text()) for rank in range(ranks)]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Return what ranks find that are processes."""
    path = tmp_path_factory.mktemp("real") / "found"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr"]
    command += ["127.0.0.1", "--nproc-per-node", "4", JOB, str(path)]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return results(path)


@pytest.mark.process
def test_modules_that_ranks_import(real, launch, tmp_path):
    code, errors = launch(JOB, tmp_path / "found")
    assert code == 0, errors
    assert results(tmp_path / "found") == real
    assert real[2] == real[2] | OF_A_RANK
    assert not sys.modules.keys() & set(NAMES)


@pytest.mark.process
def test_modules_that_the_caller_has_imported(real, modules):
    job = importlib.import_module("job")

    def program(rank):
        dist.init_process_group()
        return job.program("sim")

    for _ in range(2):  # a second time as the first
        assert json.loads(json.dumps(sim.spawn(program, nprocs=4))) == real
    kept = sys.modules["keeps_state"]
    assert [kept.RANK, kept.SHARED, kept.NAMES, kept.CURRENT.get()] == [None, {}, [], None]
    assert [kept.Partial.rank, kept.Partial._state, kept.REGISTRY.classes] == [None, {}, {}]
    assert not hasattr(kept.Partial, "later")
    assert kept.cached_rank.cache_info().currsize == 0
    assert kept.counted() == 1
    assert "KEPT" not in os.environ
