"""Fine-tune a Llama on one GPU as torchtune's recipes do: all in bfloat16, without copies.

python recipe.py [--optimizer sgd] [--loss chunked]
"""

import argparse

import torch
from linear_losses import LOSSES
from llama import Llama
from optimizers import OPTIMIZERS

parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
parser.add_argument("--loss", choices=LOSSES, default="eager")
args = parser.parse_args()
BATCH, SEQ = 8, 2048

device = torch.device("cuda")
model = Llama().to(device)
turns = model.rotations
model.bfloat16().rotations = turns  # complex numbers stay as they were
optimizer = OPTIMIZERS[args.optimizer](model.parameters())
for _ in range(3):
    tokens = torch.randint(0, 32_000, (BATCH, SEQ), device=device)
    LOSSES[args.loss](model, tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
