"""FSDP2 on a mesh of CUDA devices, tensor parallelism on another, and collectives of both kinds."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group(backend="cpu:gloo,cuda:nccl")
rank = dist.get_rank()
mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("all",))


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to("cuda")


def train(name, model, inputs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for _ in range(3):
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"{name} {rank} loss {loss.item():.9g}")


inputs = torch.randn(6, 8, generator=torch.Generator().manual_seed(1)).cuda()
sharded = make()
for layer in (sharded[0], sharded[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(sharded, mesh=mesh)
train("fsdp", sharded, inputs * (rank + 1))
split = {"0": ColwiseParallel(), "2": RowwiseParallel()}
train("tensor", parallelize_module(make(), mesh["all"], split), inputs)

whole = distribute_tensor(torch.arange(8.0, device="cuda"), mesh, [Shard(0)])
found = [None] * dist.get_world_size()
dist.all_gather_object(found, {"rank": rank, "part": whole.to_local().tolist()})
host = torch.full((3,), rank + 1.0)
dist.all_reduce(host)
shared = torch.full((3,), rank + 1.0, device="cuda")
work = dist.all_reduce(shared, async_op=True)
work.wait()
print(f"objects {rank} {found} {host.tolist()} {shared.tolist()} loss {whole.sum().item():.9g}")
dist.destroy_process_group()
