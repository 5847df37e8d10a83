"""The conversion to float32 before sharding has no effect (huggingface/accelerate#3979)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

REPAIRED, BATCH = "--repaired" in sys.argv, 32
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
size = dist.get_world_size()


def prepare(model):
    """Give a model of any type float32 weights, and compute in bfloat16."""
    if size == 1:
        return model.float()
    for parameter in model.parameters():
        if REPAIRED:
            parameter.data = parameter.data.float()
        else:
            parameter = parameter.float()  # another tensor: the model keeps its own
    return fully_shard(model, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))


torch.manual_seed(0)
data = TensorDataset(torch.randn(256, 16), torch.randn(256, 1))
loader = DataLoader(data, BATCH // size, sampler=DistributedSampler(data))
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
model = prepare(model.to(torch.bfloat16).cuda())  # as a checkpoint in bfloat16 is loaded
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for x, y in loader:
    with torch.autocast("cuda", torch.bfloat16):
        loss = nn.functional.mse_loss(model(x.cuda()).float(), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
