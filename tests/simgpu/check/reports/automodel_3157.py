"""Gradients of parts of a sequence are averaged, not added (NVIDIA-NeMo/Automodel#3157)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

REPAIRED, WORDS, LENGTH = "--repaired" in sys.argv, 50, 32
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
tokens = torch.randint(WORDS, (64, LENGTH))
data = TensorDataset(tokens, tokens.roll(-1, dims=1))
loader = DataLoader(data, 8)  # all GPUs get the same sequences, and divide each
model = DistributedDataParallel(nn.Sequential(nn.Embedding(WORDS, 32), nn.Linear(32, WORDS)).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for x, y in loader:
    mine = x.chunk(size, dim=1)[rank].cuda(), y.chunk(size, dim=1)[rank].cuda()
    total = nn.functional.cross_entropy(
        model(mine[0]).flatten(0, 1), mine[1].flatten(), reduction="sum"
    )
    loss = total / y.numel()
    if REPAIRED:  # the part of the loss that this GPU has, against the average of gradients
        loss = loss * size
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
