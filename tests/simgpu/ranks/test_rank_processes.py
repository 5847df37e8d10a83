"""Properties of any process: the same clock, no missing private names, other packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.paths import PYTHONPATH

import simgpu as sim
from simgpu.ranks.process import torch_internals

PROGRAM = """
import hashlib
from test_rank_pipelines import train as train_pipeline
from test_rank_ddp import DDP, train as train_ddp
from test_rank_fsdp import train as train_fsdp
from test_rank_tensor_parallel import SEQUENCE_PLAN, train as train_tensors
import simgpu as sim

def report(program, *args, k=2):
    sim.spawn(program, args, nprocs=k, gpu="a100", link="nvlink3")
    trace = sorted(map(repr, sim.trace()))
    print(program.__module__, repr(sim.now()), hashlib.sha256("".join(trace).encode()).hexdigest())

report(train_ddp, lambda model: DDP(model, bucket_cap_mb=0.002))
report(train_fsdp)
report(train_tensors, SEQUENCE_PLAN, (2, 2), k=4)
report(train_pipeline, "Schedule1F1B", 2)
report(train_pipeline, "ScheduleInterleavedZeroBubble", 2)
"""


@pytest.mark.exhaustive
@pytest.mark.process
def test_two_processes_have_the_same_clock_to_the_last_digit(capsys, monkeypatch):
    programs = Path(__file__).parents[1] / "programs"
    monkeypatch.syspath_prepend(programs)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([PYTHONPATH, str(programs)])}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as fresh:
        exec(PROGRAM, {"__name__": "program"})  # here, where tests have run before
        here = capsys.readouterr().out
        there = fresh.communicate(timeout=300)[0]
    assert len(here.splitlines()) == 5
    assert here == there


def test_this_pytorch_has_all_private_names():
    assert torch_internals.missing() == []


def test_a_missing_private_name_is_reported_in_one_sentence(monkeypatch):
    monkeypatch.setattr(
        torch_internals, "NAMES", (*torch_internals.NAMES, "torch.distributed:_not_there")
    )
    with pytest.raises(RuntimeError, match=r"lacks \(torch.distributed:_not_there\); install"):
        sim.spawn(print, nprocs=1)
    (device,) = sim.configure(1)
    assert torch.ones(2, device=device).sum().item() == 2


BESIDE_REAL_GPUS = """
import torch
import torch.distributed as dist
from simgpu import naming
naming._may_be_the_accelerator = lambda: False  # as where a real accelerator is
import simgpu as sim

def program(rank):
    device = torch.accelerator.current_accelerator()
    dist.init_process_group()
    layer = torch.nn.Linear(4, 4).to(device)
    model = torch.nn.parallel.DistributedDataParallel(layer)
    model(torch.ones(2, 4, device=device)).sum().backward()
    x = torch.ones(2).pin_memory().to(device)
    dist.all_reduce(x)
    dist.barrier()
    return device.type, x.device.index, torch.accelerator.device_count(), x.tolist()

accelerator = torch.accelerator.current_accelerator()
print(sim.spawn(program, nprocs=2))
assert torch.accelerator.current_accelerator() == accelerator
"""


@pytest.mark.process
def test_beside_a_real_accelerator_the_backend_keeps_its_own_name():
    job = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BESIDE_REAL_GPUS], capture_output=True, text=True,
        timeout=200,
    )  # fmt: skip
    assert job.returncode == 0, job.stderr
    out = [("privateuseone", rank, 2, [2.0, 2.0]) for rank in range(2)]
    assert job.stdout.strip() == str(out)


@pytest.mark.process
@pytest.mark.parametrize(
    ("setting", "type_of_devices"), [("", "privateuseone"), ("0", "privateuseone"), ("1", "sim")]
)
def test_a_process_may_leave_a_real_accelerator_alone(setting, type_of_devices):
    program = """
import torch
torch.accelerator.is_available = lambda: True
import simgpu as sim
print(sim.configure(1)[0].type)
"""
    job = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True,
        timeout=200, env=os.environ | {"SIMGPU_FORCE": setting},
    )  # fmt: skip
    assert job.stdout.strip() == type_of_devices, job.stderr
