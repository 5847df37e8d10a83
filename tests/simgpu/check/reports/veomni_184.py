"""Gradients are clipped by a norm over shards and replicas (ByteDance-Seed/VeOmni#184)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

REPAIRED, BATCH, MOST = "--repaired" in sys.argv, 16, 0.1
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
size = dist.get_world_size()
replicas = min(2, size)
mesh = init_device_mesh("cuda", (replicas, size // replicas), mesh_dim_names=("all", "shard"))

torch.manual_seed(0)
data = TensorDataset(torch.randn(128, 8), torch.randn(128, 1))
loader = DataLoader(data, BATCH // size, sampler=DistributedSampler(data))
model = nn.Linear(8, 1).cuda()
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    total = sum(p.grad.to_local().square().sum() for p in model.parameters())
    dist.all_reduce(total, group=mesh["shard"].get_group() if REPAIRED else None)
    for p in model.parameters():
        p.grad.mul_(MOST / total.sqrt())
    optimizer.step()
