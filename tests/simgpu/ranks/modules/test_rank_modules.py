"""Each rank has its own state of modules, as processes have: compared with jobs on gloo."""

import contextvars
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile

import pytest
import torch
import torch.distributed as dist
from support.paths import TESTS

import simgpu as sim
from simgpu.ranks.process.modules.shared_modules import is_installed
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
def launch(own_process, capsys):
    """Run the launcher in this process; return the exit code and the errors."""

    def run(path, *args, ranks=4, options=()):
        code = main(["--nproc-per-node", str(ranks), *options, str(path), *map(str, args)])
        return code, capsys.readouterr().err

    return run


@pytest.fixture
def run_files(launch, tmp_path):
    """Write files, and run ``main.py``."""

    def run(ranks=2, options=(), **sources):
        for name, source in sources.items():
            folder, _, inner = name.partition("__")
            path = tmp_path / folder / f"{inner}.py" if inner else tmp_path / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(source)
        return launch(tmp_path / "main.py", tmp_path / "found", ranks=ranks, options=options)

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


@pytest.mark.long
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


def test_a_result_is_what_the_rank_had(modules):
    state = importlib.import_module("keeps_state")

    def program(rank):
        state.set_state(rank)
        return state.SHARED, {"list": [state.NAMES], "other": (1,)}

    found = [({"rank": rank}, {"list": [[rank]], "other": (1,)}) for rank in range(2)]
    assert sim.spawn(program, nprocs=2) == found


COUNT = None


def test_global_variables_of_the_caller_are_each_ranks_own():
    def program(rank):
        global COUNT, LATER
        dist.init_process_group()
        assert COUNT is None
        COUNT = LATER = rank
        dist.barrier()
        return COUNT, LATER

    assert sim.spawn(program, nprocs=64, nodes=8, network="ndr") == [(r, r) for r in range(64)]
    assert COUNT is None
    assert "LATER" not in globals()


def test_a_global_that_becomes_a_constant_is_each_ranks_own(run_files, tmp_path):
    """An instruction before the one that stores may have a constant: here an empty tuple."""
    state = "FOUND = None\ndef clear():\n    global FOUND\n    FOUND = ()\n"
    main = """
import os, sys, state
assert state.FOUND is None
if os.environ["RANK"] == "1":
    state.clear()
open(f"{sys.argv[1]}.{os.environ['RANK']}", "w").write(repr(state.FOUND))
"""
    code, errors = run_files(state=state, main=main)
    assert code == 0, errors
    assert [path.read_text() for path in sorted(tmp_path.glob("found.*"))] == ["None", "()"]


def test_a_context_variable_has_the_callers_value():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(1)

    def program(rank):
        dist.init_process_group()
        before = variable.get()
        variable.set(10 + rank)
        dist.barrier()
        return before, variable.get()

    assert sim.spawn(program, nprocs=2) == [(1, 10), (1, 11)]
    assert variable.get() == 1


REPORT = """
import json, os, sys
def report(*found):
    with open(f"{sys.argv[1]}.{os.environ['RANK']}", "w") as file:
        json.dump(found, file)
"""


def test_modules_that_communicate_while_they_are_imported(run_files, tmp_path):
    """Python locks the name of a module that is being imported: ranks must not wait for that."""
    both = """
import torch, torch.distributed as dist
x = torch.full((1,), 1.0 + dist.get_rank(), device="sim")
dist.all_reduce(x)
"""
    code, errors = run_files(
        report=REPORT,
        both=both,
        package____init__="from . import inner\nfrom both import x",
        package__inner="from . import __name__ as name\nimport both",
        main="""
import torch.distributed as dist
dist.init_process_group()
import package, both, report
report.report(package.x.item(), package.inner.name, package.inner.both is both)
""",
    )
    assert code == 0, errors
    assert results(tmp_path / "found", 2) == [[3.0, "package", True]] * 2


def test_an_error_in_an_imported_module_names_rank_and_line(run_files):
    code, errors = run_files(
        broken="import os\n\nif os.environ['RANK'] == '1':\n    raise KeyError('lost')",
        main="import torch.distributed as dist\ndist.init_process_group()\nimport broken",
    )
    assert code == 1
    assert re.search(r"\[rank1\]: .*broken.py\", line 4", errors), errors
    assert "on rank 1, at broken.py:4" in errors


def test_the_program_is_each_ranks_own_and_modules_are_loaded_again(run_files, tmp_path):
    code, errors = run_files(
        report=REPORT,
        state="value = None",
        space__part="from state import value",  # a namespace package
        main="""
import importlib, os, pickle, sys
import torch.distributed as dist
import report, space.part, state
class Here: pass
rank = int(os.environ["RANK"])
state.value = rank
dist.init_process_group()
assert sys.modules["__main__"].Here is Here and sys.modules["state"] is state
others = [None] * 2
dist.all_gather_object(others, Here())
assert all(type(other) is Here for other in others)
if rank == 0:
    importlib.reload(state)
dist.barrier()
report.report(state.value, __name__, space.part.value)
""",
    )
    assert code == 0, errors
    assert results(tmp_path / "found", 2) == [[None, "__main__", None], [1, "__main__", None]]


def test_folded_ranks_begin_with_modules_of_their_own(run_files, tmp_path):
    """The program runs twice, with the first and with the last rank."""
    code, errors = run_files(
        report=REPORT,
        state="runs = []",
        main="""
import torch, torch.distributed as dist
import report, state
dist.init_process_group()
state.runs.append(dist.get_rank())
dist.all_reduce(torch.ones(4, device="sim"))
report.report(state.runs)
""",
        ranks=8,
        options=("--shapes-only", "--ranks", "0"),
    )
    assert code == 0, errors
    assert json.loads((tmp_path / "found.0").read_text()) == [[0]]


PATCH = """
import tempfile
import torch, torch.distributed as dist
calls = []
forward = torch.nn.ReLU.forward
def counted(self, x):
    calls.append(dist.get_rank())
    return forward(self, x)
def patch(when):
    if when == "early":
        torch.nn.ReLU.forward = counted
        torch.nn.ReLU.own_name = 1
    else:
        setattr(torch.nn.functional, f"relu{when}", counted)
"""
PATCHED = """
import os, tempfile
import torch, torch.distributed as dist
import library, report
rank = int(os.environ["RANK"])
if {first} <= rank:
    library.patch("early")
tempfile.tempdir = f"/{{rank}}"
dist.init_process_group()
for _ in range(2):
    torch.nn.ReLU()(torch.ones(1, device="sim"))
    dist.barrier()
if rank == {late}:
    library.patch(6)
report.report(library.calls, tempfile.tempdir, hasattr(torch.nn.ReLU, "own_name"))
"""


@pytest.mark.parametrize("first", [0, 1, 5])
def test_what_a_library_replaces_in_pytorch_is_each_ranks_own(first, run_files, tmp_path):
    forward, folder = torch.nn.ReLU.forward, tempfile.tempdir
    main = PATCHED.format(first=first, late=9)
    code, errors = run_files(report=REPORT, library=PATCH, main=main, ranks=6)
    assert code == 0, errors
    found = [[[r] * 2 if r >= first else [], f"/{r}", r >= first] for r in range(6)]
    assert results(tmp_path / "found", 6) == found
    assert torch.nn.ReLU.forward is forward
    assert not hasattr(torch.nn.ReLU, "own_name")
    assert tempfile.tempdir == folder


@pytest.mark.parametrize("late", [1, 5])
def test_a_conflict_in_a_shared_module_is_named(late, run_files):
    relu6 = torch.nn.functional.relu6
    main = PATCHED.format(first=0, late=late)
    code, errors = run_files(report=REPORT, library=PATCH, main=main, ranks=7)
    assert code == 1
    assert re.search(
        rf"rank {late} has assigned <function counted .* to torch.nn.functional.relu6, where other "
        r"ranks have <function relu6 .*share the module torch.nn.functional: assign .* before",
        errors,
    )
    assert torch.nn.functional.relu6 is relu6


FOR_A_WHILE = """
import builtins, json, os
from contextlib import contextmanager
from unittest import mock
import torch, torch.distributed as dist, torch.nn as nn, torch.nn.functional as F
import report
dist.init_process_group()
rank, found = dist.get_rank(), []

def among_waits(call):
    dist.barrier()
    found.append(call())
    dist.barrier()

@contextmanager
def replaced(owner, name, new):
    before = getattr(owner, name)
    setattr(owner, name, new)
    yield
    setattr(owner, name, before)

dist.barrier()
relu, F.relu = F.relu, lambda x: f"relu of {rank}"
among_waits(lambda: F.relu(1))
F.relu = relu
dumps, json.dumps = json.dumps, lambda x: f"dumps of {rank}"
among_waits(lambda: json.dumps(1))
json.dumps = dumps
with mock.patch("torch.nn.functional.gelu", lambda x: f"gelu of {rank}"):
    among_waits(lambda: F.gelu(1))
with mock.patch.object(nn.Linear, "forward", lambda self, x: f"forward of {rank}"):
    among_waits(lambda: nn.Linear(2, 2)(1))
with mock.patch.multiple(F, silu=mock.MagicMock(return_value=f"silu of {rank}")):
    among_waits(lambda: F.silu(1))
with replaced(torch.Tensor, "mul", lambda self, x: f"mul of {rank}"):  # an inherited name
    among_waits(lambda: torch.ones(1).mul(2))
if rank:
    F.elu = F.selu
among_waits(lambda: "of 1" if F.elu is F.selu else "of 0")
os.getpid = lambda: f"getpid of {rank}"
among_waits(lambda: os.getpid())
builtins.own_rank = f"builtin of {rank}"
among_waits(lambda: own_rank)
del builtins.own_rank
among_waits(lambda: "left of 0" if hasattr(builtins, "own_rank") else f"gone of {rank}")
report.report([text.rpartition(" ")[2] for text in found], "left of 0" in found)
"""


def test_what_a_rank_replaces_for_a_while_is_its_own(run_files, tmp_path):
    before = torch.nn.functional.elu, os.getpid, json.dumps
    code, errors = run_files(report=REPORT, main=FOR_A_WHILE, ranks=3)
    assert code == 0, errors
    own = [["0"] * 10, ["1"] * 10, ["2"] * 6 + ["1", "2", "2", "2"]]
    assert results(tmp_path / "found", 3) == [[texts, False] for texts in own]
    assert (torch.nn.functional.elu, os.getpid, json.dumps) == before


def test_a_namespace_package_in_one_that_is_gone(tmp_path, monkeypatch):
    (tmp_path / "outer_of_test" / "inner").mkdir(parents=True)
    (tmp_path / "outer_of_test" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    inner = importlib.import_module("outer_of_test.inner")
    monkeypatch.delitem(sys.modules, "outer_of_test.inner")
    monkeypatch.delitem(sys.modules, "outer_of_test")
    assert not is_installed(inner)
