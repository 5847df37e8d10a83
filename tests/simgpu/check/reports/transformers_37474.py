"""Means over each GPU's tokens count equally (huggingface/transformers#37474)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

REPAIRED, BATCH, WORDS, LENGTH, PADDING = "--repaired" in sys.argv, 16, 50, 12, -100
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
size = dist.get_world_size()

torch.manual_seed(0)
tokens = torch.randint(WORDS, (128, LENGTH))
targets = torch.randint(WORDS, (128, LENGTH))
lengths = torch.randint(1, LENGTH + 1, (128, 1))
targets[torch.arange(LENGTH) >= lengths] = PADDING
data = TensorDataset(tokens, targets)
loader = DataLoader(data, BATCH // size, sampler=DistributedSampler(data))
model = DistributedDataParallel(nn.Sequential(nn.Embedding(WORDS, 32), nn.Linear(32, WORDS)).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    total = nn.functional.cross_entropy(
        model(x).flatten(0, 1), y.flatten(), ignore_index=PADDING, reduction="sum"
    )
    count = (y != PADDING).sum()
    if REPAIRED:  # the tokens of all GPUs, times their number, since gradients are averaged
        dist.all_reduce(count)
        total = total * size
    loss = total / count
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
