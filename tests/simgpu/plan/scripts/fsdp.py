"""Train a Llama with FSDP2: torchrun --nproc-per-node 8 fsdp.py [--keep] [--recompute] ..."""

import argparse
import os
from functools import partial

import torch
import torch.distributed as dist
from llama import Llama, loss_of
from optimizers import OPTIMIZERS, make_optimizer
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--keep", action="store_true", help="parameters stay whole until backward")
parser.add_argument("--recompute", action="store_true")
parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
parser.add_argument("--bfloat16", action="store_true", help="weights have no copies of 32 bits")
parser.add_argument("--tf32", action="store_true", help="all in 32 bits, products rounded")
args = parser.parse_args()
BATCH, SEQ = 8, 2048

dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
with torch.device("meta"):
    model = Llama()
if args.bfloat16:
    model.bfloat16()
if args.recompute:
    for block in model.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
policy = {} if args.bfloat16 or args.tf32 else {"mp_policy": mixed}
if args.tf32:
    torch.set_float32_matmul_precision("high")
for block in model.blocks:
    fully_shard(block, reshard_after_forward=not args.keep, **policy)
fully_shard(model, reshard_after_forward=False, **policy)
model.to_empty(device=device)
model.init_buffers(device)
optimizer = make_optimizer(args.optimizer, model)
for _ in range(3):
    tokens = torch.randint(0, 32_000, (BATCH, SEQ), device=device)
    loss_of(model(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
