"""A loss over gathered embeddings has the gradient of one GPU's (lightly-ai/lightly#1977)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_gather
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

REPAIRED, BATCH = "--repaired" in sys.argv, 16
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()


def gather(x):
    """Return the rows of all GPUs; those of others have no gradient unless repaired."""
    if REPAIRED:
        return torch.cat(all_gather(x))
    parts = [torch.empty_like(x) for _ in range(size)]
    dist.all_gather(parts, x.detach())
    parts[rank] = x
    return torch.cat(parts)


torch.manual_seed(0)
data = TensorDataset(torch.randn(128, 8))
loader = DataLoader(data, BATCH // size, sampler=DistributedSampler(data, shuffle=False))
model = DistributedDataParallel(nn.Linear(8, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in loader:
    x = x.cuda()
    one, other = gather(model(x)), gather(model(1.1 * x + 0.01))
    correlations = one.T @ other / BATCH
    loss = (correlations - torch.eye(4, device=x.device)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
