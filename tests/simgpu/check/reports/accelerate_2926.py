"""A wrapper's scheduler advances once for each GPU in every step (huggingface/accelerate#2926)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

REPAIRED, BATCH = "--repaired" in sys.argv, 32
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
size = dist.get_world_size()


class PreparedScheduler:
    """Counts optimizer steps as if each GPU had its own, since the loader is that much shorter."""

    def __init__(self, scheduler):
        self.scheduler = scheduler

    def step(self):
        for _ in range(1 if REPAIRED else size):
            self.scheduler.step()


torch.manual_seed(0)
data = TensorDataset(torch.randn(256, 16), torch.randn(256, 1))
loader = DataLoader(data, BATCH // size, sampler=DistributedSampler(data))
model = DistributedDataParallel(
    nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1)).cuda()
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = PreparedScheduler(StepLR(optimizer, step_size=4, gamma=0.1))
for x, y in loader:
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
