"""Scripts on more GPUs than ranks that run: the launcher finds out which ranks do the same."""

import re

import pytest

from simgpu.ranks import representatives
from simgpu.run.options import cluster_of, make_parser, spawn_options

TRAIN = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
net = torch.nn.Linear(2048, 2048).cuda()
net = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(3):
    loss = net(torch.ones(512, 2048, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0:
        print("loss of step", step, loss.item())
    if os.environ.get("UNEQUAL") and rank % 2:
        torch.ones(4096, 4096, device="cuda").sum()
"""
CLUSTER = ("--nproc-per-node", "8", "--network", "ndr", "--shapes-only", "--nnodes")


def step_time(text):
    return next(line for line in text.splitlines() if line.startswith("step time"))


def test_ranks_are_found_beyond_128_and_the_script_prints_once(simgpu_run):
    code, out, _ = simgpu_run(TRAIN, *CLUSTER, "32")
    assert code == 0
    assert out.count("loss of step") == 3
    assert "; rank 0 in place of all 256" in out
    assert "note" not in out


def test_a_folded_step_takes_as_long_as_one_of_all_ranks(simgpu_run):
    _, full, _ = simgpu_run(TRAIN, *CLUSTER, "2")
    _, folded, _ = simgpu_run(TRAIN, *CLUSTER, "2", "--ranks", "auto")
    assert "in place of all 16" in folded
    assert "in place" not in full
    assert step_time(folded) == step_time(full)


@pytest.mark.parametrize("ranks", ["0", pytest.param("auto", marks=pytest.mark.exhaustive)])
def test_ranks_that_differ_are_named_beside_the_summary(simgpu_run, monkeypatch, ranks):
    monkeypatch.setenv("UNEQUAL", "1")
    monkeypatch.setattr(representatives, "MAX_DEVICES", 8)  # 128 of them take a minute
    code, out, _ = simgpu_run(TRAIN, *CLUSTER, "32", "--ranks", ranks)
    assert code == 0
    assert "step time" in out
    assert "cannot stand for rank" in out
    assert re.search(
        r"runs ones for \S+ us \(\w+\.py:13\), where rank \d+ runs ones .*\.py:20\)", out
    )
    assert out.endswith("The numbers are those of the ranks that ran\n")


def test_values_need_all_ranks():
    args = make_parser().parse_args(["--nnodes", "32", *CLUSTER[:4], "train.py"])
    with pytest.raises(ValueError, match=r"256 ranks cannot run at once.* --shapes-only"):
        spawn_options(args, cluster_of(args))
