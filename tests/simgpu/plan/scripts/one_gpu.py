"""Train on one GPU: python one_gpu.py [--llama] [--recompute]."""

import argparse
from functools import partial

import torch
from gpt import GPT
from llama import Llama, loss_of
from masters import BufferedAdamW
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--llama", action="store_true")
parser.add_argument("--recompute", action="store_true")
args = parser.parse_args()
BATCH, SEQ = 8, 2048

device = torch.device("cuda")
model = (Llama() if args.llama else GPT()).to(device)
rotations = model.rotations if args.llama else None
model.bfloat16()
if args.llama:
    model.rotations = rotations  # complex numbers stay as they were
if args.recompute:
    for block in model.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
optimizer = BufferedAdamW(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, 32_000, (BATCH, SEQ), device=device)
    loss = loss_of(model(tokens), tokens) if args.llama else model(tokens, tokens)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
