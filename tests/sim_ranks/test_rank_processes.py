"""What must hold in any process: the same clock, no private name missing, other packages."""

import subprocess
import sys

import pytest
import torch

from d2lmini import sim
from d2lmini.sim.ranks import private

PROGRAM = """
import hashlib
from test_rank_pipelines import train as train_pipeline
from test_rank_ddp import DDP, train as train_ddp
from test_rank_fsdp import train as train_fsdp
from test_rank_tensor_parallel import SEQUENCE_PLAN, train as train_tensors
from d2lmini import sim

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


def test_three_processes_have_the_same_clock_to_the_last_digit():
    folder = str(__file__).rpartition("/")[0]
    jobs = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROGRAM], cwd=folder, stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    outputs = [job.communicate(timeout=300)[0] for job in jobs]
    assert len(outputs[0].splitlines()) == 5
    assert outputs[0] == outputs[1] == outputs[2]


def test_this_pytorch_has_all_private_names():
    assert private.missing() == []


def test_a_pytorch_without_a_private_name_gets_one_sentence(monkeypatch):
    monkeypatch.setattr(private, "NAMES", (*private.NAMES, "torch.distributed:_not_there"))
    with pytest.raises(RuntimeError, match=r"lacks \(torch.distributed:_not_there\); install"):
        sim.spawn(print, nprocs=1)
    (device,) = sim.configure(1)
    assert torch.ones(2, device=device).sum().item() == 2
