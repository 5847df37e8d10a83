"""Behind the last simulated machine PyTorch is as it was before the first."""

import os
import subprocess
import sys

import pytest
import torch
from support.paths import PYTHONPATH
from support.torch_snapshot import STAYS

import simgpu as sim
from simgpu.backend.pytorch.replacements import Replacements, exists, find, replace

SNAPSHOT = """
import warnings
import torch, torch.distributed.fsdp, torch.distributed.pipelining, torch.distributed.tensor
import torch.optim, torch.utils.checkpoint
import simgpu as sim
from support.torch_snapshot import changed, snapshot
warnings.simplefilter("ignore")

def step(device):
    net = torch.nn.Linear(4, 2).to(device)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(3, 4, device=device)).sum().backward()
    optimizer.step()

def run_machine():
    step(sim.configure(1)[0])
    sim.close()

def run_block():
    with sim.machine(2) as devices:
        step(devices[1])

def run_ranks():
    sim.spawn(lambda rank: step(torch.accelerator.current_accelerator()), nprocs=2)
    sim.close()

step("cpu")  # PyTorch imports some of its modules when they are first used
before = snapshot()
RUN()
print(len(before) > 50_000, changed(before))
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "run", ["run_machine", pytest.param("run_block", marks=pytest.mark.exhaustive), "run_ranks"]
)
def test_nothing_of_pytorch_stays_replaced(run):
    done = subprocess.run(
        [sys.executable, "-c", SNAPSHOT.replace("RUN()", f"{run}()")],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": PYTHONPATH},
    )  # fmt: skip
    enough, _, found = done.stdout.partition(" ")
    assert enough == "True"
    assert set(eval(found)) <= STAYS


def test_a_closed_machine_is_gone_and_the_next_one_works():
    (device,) = sim.configure(1)
    x = torch.ones(2, device=device)
    sim.close()
    sim.close()
    assert sim.device_count() == 0
    with pytest.raises(RuntimeError, match="no simulated GPUs yet"):
        sim.now()
    with pytest.raises(RuntimeError, match="replaced"):
        x + 1
    (device,) = sim.configure(1)
    assert (torch.ones(2, device=device) + 1).tolist() == [2.0, 2.0]


def test_meta_tensors_are_pytorchs_own_again():
    sim.configure(1)
    sim.close()
    assert type(torch.ones(2, device="meta:0")) is torch.Tensor


class Owner:
    """Stands for a class of PyTorch."""

    def method(self):
        """Return what the original returns."""
        return "original"


class Heir(Owner):
    """Has the method by inheritance."""


def test_replacements_are_restored_the_last_one_first():
    name, original = f"{__name__}:Owner.method", Owner.method
    with Replacements() as scoped:
        scoped.add({name: lambda self: "first"})
        scoped.add({name: lambda self: "second"})
        assert find(name)(Owner()) == Owner().method() == "second"
    assert Owner.method is original


def test_an_inherited_name_is_inherited_again():
    restore = replace(f"{__name__}:Heir.method", lambda self: "replaced")
    assert (Heir().method(), Owner().method()) == ("replaced", "original")
    restore()
    assert "method" not in vars(Heir)


def test_what_somebody_else_has_replaced_meanwhile_stays(monkeypatch):
    restore = replace(f"{__name__}:Owner.method", lambda self: "ours")
    theirs = lambda self: "theirs"  # noqa: E731
    monkeypatch.setattr(Owner, "method", theirs)
    restore()
    assert Owner.method is theirs


def test_ranks_cannot_close_the_machine():
    with pytest.raises(RuntimeError, match=r"sim\.close\(\) is not allowed in a rank"):
        sim.spawn(lambda rank: sim.close(), nprocs=1)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("torch.nn:Module._apply", True), ("torch.nn:Module.no_such", False),
        ("torch.no_such:name", False), ("torch.no_such.deeper:name", False),
        ("torch.ops.aten:mm", True), ("torch.ops.aten:no_such", False),
    ],
)  # fmt: skip
def test_whether_pytorch_has_a_name(name, there):
    assert exists(name) == there


def test_a_module_that_cannot_be_imported_is_not_taken_for_a_missing_name(tmp_path, monkeypatch):
    (tmp_path / "broken_within.py").write_text("import no_such_module_at_all\n")
    (tmp_path / "broken_at_a_name.py").write_text("raise AttributeError('__wrapped__')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        exists("broken_within:name")
    with pytest.raises(AttributeError, match="__wrapped__"):
        exists("broken_at_a_name:name")
