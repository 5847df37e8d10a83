"""Fine-tune a Llama on one GPU as torchtune's recipes do: all in one type, without copies.

python recipe.py [--optimizer sgd] [--loss chunked] [--every 2] [--first 3] [--dtype tf32]
"""

import argparse
from functools import partial

import torch
from linear_losses import LOSSES
from llama import Llama
from optimizers import OPTIMIZERS, make_optimizer
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
parser.add_argument("--loss", choices=LOSSES, default="eager")
parser.add_argument("--every", type=int, help="of so many blocks recompute one")
parser.add_argument("--first", type=int, help="recompute so many blocks")
parser.add_argument("--dtype", choices=("bfloat16", "float32", "tf32"), default="bfloat16")
args = parser.parse_args()
BATCH, SEQ = 8, 2048

device = torch.device("cuda")
model = Llama().to(device)
if args.dtype == "bfloat16":
    turns = model.rotations
    model.bfloat16().rotations = turns  # complex numbers stay as they were
elif args.dtype == "tf32":
    torch.set_float32_matmul_precision("high")
for i, block in enumerate(model.blocks, 1):
    if (args.every and i % args.every == 0) or i <= (args.first or 0):
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
optimizer = make_optimizer(args.optimizer, model)
for _ in range(3):
    tokens = torch.randint(0, 32_000, (BATCH, SEQ), device=device)
    LOSSES[args.loss](model, tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
