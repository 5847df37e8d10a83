"""Train a GPT data parallel: torchrun --nproc-per-node 8 ddp.py [muon or adafactor].

AdamW changes copies of the weights in 32 bits, the others the weights themselves.
"""

import os
import sys

import torch
import torch.distributed as dist
from gpt import GPT
from masters import MasterAdamW
from optimizers import make_optimizer
from torch.nn.parallel import DistributedDataParallel

BATCH, SEQ = 8, 2048

dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local)
torch.cuda.set_device(device)
model = DistributedDataParallel(
    GPT().to(device).bfloat16(), device_ids=[local], gradient_as_bucket_view=True
)
names = sys.argv[1:]
optimizer = make_optimizer(*names, model.module) if names else MasterAdamW(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, 50_304, (BATCH, SEQ), device=device)
    model(tokens, tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
