"""Gradients are to be reduced once the forward pass is over (karpathy/build-nanogpt#30)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

REPAIRED, BATCH, PARTS = "--repaired" in sys.argv, 16, 2
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
size = dist.get_world_size()

torch.manual_seed(0)
data = TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
loader = DataLoader(data, BATCH // size, sampler=DistributedSampler(data))
model = DistributedDataParallel(nn.Linear(8, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(loader):
    is_last = i % PARTS == PARTS - 1
    if REPAIRED:
        model.require_backward_grad_sync = is_last
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda()) / PARTS
    model.require_backward_grad_sync = is_last
    loss.backward()
    if is_last:
        optimizer.step()
        optimizer.zero_grad()
