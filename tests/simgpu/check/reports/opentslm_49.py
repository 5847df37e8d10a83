"""The loss is the module's under the wrapper, so nothing is reduced (OpenTSLM/OpenTSLM#49)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

REPAIRED, BATCH = "--repaired" in sys.argv, 16
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
size = dist.get_world_size()

torch.manual_seed(0)
data = TensorDataset(torch.randn(128, 8), torch.randn(128, 1))
loader = DataLoader(data, BATCH // size, sampler=DistributedSampler(data))
model = DistributedDataParallel(nn.Linear(8, 1).cuda())
called = model if REPAIRED else model.module
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(called(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
