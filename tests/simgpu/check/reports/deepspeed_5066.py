"""Gradients of experts that get no tokens are not reduced (deepspeedai/DeepSpeed#5066)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

REPAIRED, BATCH = "--repaired" in sys.argv, 4
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
size = dist.get_world_size()


class Experts(nn.Module):
    """Sends each token to one expert, by a number that stands in its first feature."""

    def __init__(self, features, count):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(features, features) for _ in range(count))

    def forward(self, x):
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            chosen = x[:, 0] == i
            if REPAIRED or chosen.any():  # an expert without tokens computes with none
                out[chosen] = expert(x[chosen])
        return out


def average(parameter):
    """Reduce a gradient as soon as it is complete, as ZeRO does."""
    dist.all_reduce(parameter.grad)
    parameter.grad /= size


torch.manual_seed(0)
x = torch.randn(64, 8)
x[:, 0] = torch.randint(4, (64,))
data = TensorDataset(x, torch.randn(64, 8))
loader = DataLoader(data, BATCH // size, sampler=DistributedSampler(data))
model = Experts(8, 4).cuda()
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(average)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
