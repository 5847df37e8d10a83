"""torchrun's command line: every option of the installed torchrun is taken, or refused in words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser

from simgpu.run.command import main
from simgpu.run.options import NO_EFFECT, cluster_of, make_parser, notes

OPTIONS = [
    (flag, action)
    for action in get_args_parser()._actions
    for flag in action.option_strings
    if action.dest != "help"
]
WITH_EFFECT = {
    *("nnodes", "nproc_per_node", "module", "max_restarts", "local_ranks_filter"),
    *("master_addr", "master_port", "rdzv_id", "role"),
}
REFUSED = {"no_python", "virtual_local_rank"}
WORK = "import torch\nx = torch.ones(9, device=torch.accelerator.current_accelerator()) * 2\n"


def words(flag, action):
    """Return a flag of torchrun and a value for it, if it takes one."""
    if action.nargs == 0:
        return [flag]
    return [flag, action.choices[0] if action.choices else "1"]


@pytest.mark.parametrize(("flag", "action"), OPTIONS, ids=[flag for flag, _ in OPTIONS])
def test_every_option_of_torchrun_is_known(flag, action):
    args = make_parser().parse_args([*words(flag, action), "train.py", flag])
    assert (args.script, args.args) == ("train.py", [flag])
    name = f"--{action.dest.replace('_', '-')}"
    if action.dest in REFUSED:
        with pytest.raises(ValueError, match=f"{name}: .*; "):
            notes(args)
    elif action.dest in WITH_EFFECT:
        assert len(notes(args)) == 1
    else:
        assert notes(args)[1:] == [
            f"without effect here: {name}; the ranks are threads of one process"
        ]


def test_no_option_is_listed_that_torchrun_does_not_have():
    known = {action.dest for _, action in OPTIONS}
    assert {name.replace("-", "_") for name in NO_EFFECT} <= known
    assert known >= WITH_EFFECT | REFUSED


def test_what_cannot_work_is_refused_before_the_run(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--no-python", "train.sh"])
    out, err = capsys.readouterr()
    assert (out, "--no-python: ranks are threads of one Python process" in err) == ("", True)


@pytest.mark.parametrize(
    ("given", "nodes", "ranks"),
    [
        (["--nnodes", "1:4", "--network", "ndr"], 4, 4),
        (["--nproc-per-node", "auto"], 1, 8),
        (["--nproc-per-node", "gpu", "--link", "pcie4"], 1, 8),
        (["--nproc-per-node=3", "--nnodes=2", "--network", "ndr"], 2, 6),
    ],
)
def test_numbers_of_nodes_and_ranks(given, nodes, ranks):
    cluster = cluster_of(make_parser().parse_args([*given, "train.py"]))
    assert (cluster.nodes, cluster.world_size) == (nodes, ranks)


@pytest.mark.parametrize("given", ["cpu", "xpu", "0", "-1", "1.5", "two"])
def test_other_numbers_are_refused(given):
    args = make_parser().parse_args(["--nproc-per-node", given, "train.py"])
    with pytest.raises(ValueError, match=f"--nproc-per-node {given}: give a positive number, gpu"):
        cluster_of(args)


def test_ranks_find_what_torchrun_sets_in_the_environment(simgpu_run):
    names = (
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
        *("ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT"),
        *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID"),
    )
    source = f"{WORK}import os\nprint(*(os.environ[name] for name in {names}))\n"
    options = ["--nproc-per-node", "2", "--nnodes", "2", "--network", "ndr", "--role", "worker"]
    options += ["--master-addr", "first", "--master_port", "7", "--rdzv-id=job", "--max-restarts=5"]
    code, out, _ = simgpu_run(source, *options)
    last = "4 worker first 7 0 5 job"
    assert code == 0
    assert sorted(out.splitlines()[:4]) == [
        f"0 0 4 2 0 2 0 {last}", f"1 1 4 2 0 2 1 {last}",
        f"2 0 4 2 1 2 2 {last}", f"3 1 4 2 1 2 3 {last}",
    ]  # fmt: skip


def test_only_some_ranks_are_shown(simgpu_run):
    source = (
        f"{WORK}import os, sys\nprint('rank', os.environ['RANK'])\nprint('!', file=sys.stderr)\n"
    )
    nodes = ["--nproc-per-node", "3", "--nnodes", "2", "--network", "ndr"]
    code, out, err = simgpu_run(source, *nodes, "--local-ranks-filter", "0,2")
    shown = [line for line in out.splitlines() if line.startswith("rank")]
    assert code == 0
    assert sorted(shown) == ["rank 0", "rank 2", "rank 3", "rank 5"]
    assert err.count("!") == 4


PACKAGE = {
    "__init__.py": "",
    "beside.py": "answer = 42\n",
    "train.py": "import sys, torch\n"
    "from . import beside\n"
    "print(__name__, __package__, __spec__.name, __file__, sys.argv, sys.path[0], beside.answer)\n"
    "torch.ones(9, device=torch.accelerator.current_accelerator() or 'cpu') * 2\n",
    "__main__.py": "from .train import *\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a package of modules that can be run, and go where it is."""
    folder = tmp_path / "jobs" / "inner"
    folder.mkdir(parents=True)
    for name, text in PACKAGE.items():
        (folder / name).write_text(text)
    (tmp_path / "jobs" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "jobs"]:
        del sys.modules[name]


@pytest.mark.process
def test_a_module_runs_as_under_python(package, own_process, capsys):
    command = [sys.executable, "-m", "jobs.inner.train", "--size", "3"]
    real = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert main(["-m", "--nproc-per-node", "2", "jobs.inner.train", "--size", "3"]) == 0
    assert capsys.readouterr().out.startswith(real * 2)


def test_a_package_runs_its_main(package, own_process, capsys):
    assert main(["-m", "jobs.inner"]) == 0
    assert capsys.readouterr().out.startswith("jobs.inner.train jobs.inner ")


@pytest.mark.parametrize("name", ["jobs.nowhere", "nowhere.train", "jobs.inner.train.deeper"])
def test_a_module_that_does_not_exist(package, capsys, name):
    with pytest.raises(SystemExit, match="2"):
        main(["-m", name])
    assert f"-m {name}: there is no module of this name" in capsys.readouterr().err


def test_a_failure_in_a_module_is_shown_from_its_first_line(package, own_process, capsys):
    Path("jobs/inner/train.py").write_text("from . import beside\n1 / 0\n")
    assert main(["-m", "jobs.inner.train"]) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[2].endswith(f'{os.sep}train.py", line 2, in <module>')
    assert err[-1] == "simgpu run: train.py failed on rank 0 (exit code 1)"
