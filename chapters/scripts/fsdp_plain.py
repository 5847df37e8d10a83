"""Train with FSDP2, as one file for torchrun and for simulated GPUs.

Two processes, on the GPUs that there are, else on the CPU:

    torchrun --standalone --nproc-per-node 2 fsdp_plain.py

Two simulated GPUs:

    python -m d2lmini.sim.run --nproc-per-node 2 --gpu h100 fsdp_plain.py
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
)
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

WORDS, LENGTH = 50, 32


class Transformer(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 4, 4 * width, dropout=0.0, batch_first=True
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, WORDS)

    def forward(self, X):
        X = self.embed(X)
        for block in self.blocks:
            X = block(X)
        return self.head(X.flatten(0, 1))


def batch(step, rank, size):
    """Return random sentences; to be predicted is a number for each word."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    X = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return X, (7 * X + 3) % WORDS


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=8, help="of a rank")
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--depth", type=int, default=2)
parser.add_argument("--bfloat16", action="store_true")
parser.add_argument("--save", metavar="FILE")
args = parser.parse_args()

device = torch.device("cpu")
if torch.accelerator.is_available():
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
dist.init_process_group()
rank = dist.get_rank()

torch.manual_seed(0)
model = Transformer(args.width, args.depth).to(device)
policy = MixedPrecisionPolicy()
if args.bfloat16:
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
for block in model.blocks:
    fully_shard(block, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

for step in range(args.steps):
    X, y = (t.to(device) for t in batch(step, rank, args.batch_size))
    loss = nn.functional.cross_entropy(model(X).float(), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    if rank == 0:
        print(f"step {step}: loss {mean.item():.8f}")

if args.save:
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=options)
    if rank == 0:
        torch.save(weights, args.save)
dist.destroy_process_group()
