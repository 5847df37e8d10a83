"""Models that ranks divide: shards, summands, stages and experts are compared as one GPU's."""

import pytest
from support.paths import ROOT

pytestmark = pytest.mark.slow

SPLIT = """
import os, sys, torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module,
)
from torch.distributed.tensor import Replicate, Shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
size = dist.get_world_size()
mesh = init_device_mesh("cuda", (max(1, size // 2), min(size, 2)), mesh_dim_names=("dp", "tp"))
dp = mesh["dp"]

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))

torch.manual_seed(0)
model = nn.Sequential(Block(), Block()).cuda()
for block in model if size > 1 else ():
    parallelize_module(block, mesh["tp"], {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(),
    })
    whole = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1))
    parallelize_module(block, mesh["tp"], whole)
    fully_shard(block, mesh=dp)
data = TensorDataset(torch.randn(64, 8, 16), torch.randn(64, 8, 16))
sampler = DistributedSampler(data, dp.size(), dp.get_local_rank())
loader = DataLoader(data, 8 // dp.size(), sampler=sampler, num_workers=0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for x, y in loader:
    for part in range(2):
        loss = nn.functional.mse_loss(model(x[part::2].cuda()), y[part::2].cuda()) / 2
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("gpus", [2, 4])
def test_shards_and_summands_are_added_up(simgpu_check, gpus):
    code, printed, found = simgpu_check(SPLIT, "--steps", "3", gpus=gpus)
    assert (code, found["notes"]) == (0, []), printed.out


def test_what_tensor_parallel_ranks_have_still_to_add_up_is_added_up(simgpu_check):
    source = SPLIT.replace("    fully_shard(block, mesh=dp)\n", "")
    code, printed, _ = simgpu_check(source, "--steps", "3")
    assert code == 0, printed.out


def test_a_fault_in_one_shard_is_found(simgpu_check):
    wrong = "    model[1].up.bias.grad *= 1.5\n    optimizer.step()"
    source = SPLIT.replace("    optimizer.step()", f"    if size > 1:\n    {wrong}", 1)
    _, printed, found = simgpu_check(source, "--steps", "2", gpus=4)
    first = found["findings"][0]
    assert (first["quantity"], first["step"]) == ("gradients", 1), printed.out
    assert "1 of 12 parameters, most in 1.up.bias" in first["cause"]


def test_stages_and_parts_by_hand_are_not_taken_for_copies(simgpu_check):
    path = ROOT / "tests" / "frameworks" / "scripts" / "grid_trainer.py"
    code, _, found = simgpu_check(path, "--one", "", args=["--tp", "2", "--pp", "2"], gpus=4)
    assert code == 0
    assert [note.split(" parameters")[0] for note in found["notes"]] == ["12", "20 of 42"]


EXPERTS = """
import os, torch, torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(4 // size)).cuda()
data = TensorDataset(torch.randn(32, 4))
loader = DataLoader(data, 8 // size, sampler=DistributedSampler(data))
optimizer = torch.optim.SGD(experts.parameters(), lr=0.1)
for x, in loader:
    experts[0](x.cuda()).square().mean().backward()
    if SOMETIMES and rank == 1:
        experts[1](x.cuda()).square().mean().backward()
    dist.all_reduce(x.sum().cuda())
    optimizer.step()
    optimizer.zero_grad()
"""


def test_experts_that_begin_alike_may_become_different(simgpu_check):
    for sometimes in (False, True):
        _, _, found = simgpu_check(EXPERTS.replace("SOMETIMES", str(sometimes)))
        quantities = {finding["quantity"] for finding in found["findings"]}
        assert not quantities & {"parameters", "collectives"}
        assert any("right if each rank has its own there" in note for note in found["notes"])
