"""Train a Llama with FSDP2: torchrun --nproc-per-node 8 fsdp.py [--keep] [--recompute]."""

import argparse
import os
from functools import partial

import torch
import torch.distributed as dist
from llama import Llama, loss_of
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--keep", action="store_true", help="parameters stay whole until backward")
parser.add_argument("--recompute", action="store_true")
args = parser.parse_args()
BATCH, SEQ = 8, 2048

dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
with torch.device("meta"):
    model = Llama()
if args.recompute:
    for block in model.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model.blocks:
    fully_shard(block, mp_policy=policy, reshard_after_forward=not args.keep)
fully_shard(model, mp_policy=policy, reshard_after_forward=False)
model.to_empty(device=device)
model.init_buffers(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for _ in range(3):
    tokens = torch.randint(0, 32_000, (BATCH, SEQ), device=device)
    loss_of(model(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
