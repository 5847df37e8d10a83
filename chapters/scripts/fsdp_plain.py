"""Train with FSDP2, as one file for torchrun and for simulated GPUs.

Two processes, on the GPUs that there are, else on the CPU:

    torchrun --standalone --nproc-per-node 2 fsdp_plain.py

Two simulated GPUs:

    simgpu run --nproc-per-node 2 --gpu h100 fsdp_plain.py
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    get_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--bfloat16", action="store_true")
parser.add_argument("--resume", metavar="FOLDER")
parser.add_argument("--save", metavar="FOLDER")
args = parser.parse_args()
VOCABULARY, LENGTH, SEQUENCES, PARTS, NOTHING = 50, 32, 16, 2, -100


class Transformer(nn.Module):
    def __init__(self, width=64, depth=2):
        super().__init__()
        how = {"dropout": 0.0, "batch_first": True}
        layer = nn.TransformerEncoderLayer
        self.embed = nn.Embedding(VOCABULARY, width)
        blocks = [layer(width, 4, 4 * width, **how) for _ in range(depth)]
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, X):
        X = self.embed(X)
        for block in self.blocks:
            X = checkpoint(block, X, use_reentrant=False)
        return self.head(X.flatten(0, 1))


def batch(step):  # of all ranks; the tokens are random, so are the lengths
    generator = torch.Generator().manual_seed(step)
    X = torch.randint(VOCABULARY, (SEQUENCES, LENGTH), generator=generator)
    length = torch.randint(1, LENGTH + 1, (SEQUENCES, 1), generator=generator)
    y = (7 * X + 3) % VOCABULARY
    return X, y.where(torch.arange(LENGTH) < length, NOTHING)


device = torch.device("cpu")
if torch.accelerator.is_available():
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
dist.init_process_group()
rank, world_size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = Transformer().to(device)
policy = MixedPrecisionPolicy()
if args.bfloat16:
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)  # 1
for block in model.blocks:
    fully_shard(block, mp_policy=policy)  # 2
fully_shard(model, mp_policy=policy)  # 2
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)  # 3


def state(step):
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "step": step}


begin = 0
if args.resume:  # 7
    saved = state(begin)
    dcp.load(saved, checkpoint_id=args.resume)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=saved["model"],
        optim_state_dict=saved["optimizer"],
    )
    begin = saved["step"]

for step in range(begin, args.steps):
    X, y = (t[rank::world_size].to(device) for t in batch(step))
    total, count = torch.zeros((), device=device), (y != NOTHING).sum()
    dist.all_reduce(count)  # 4
    for part in range(PARTS):
        model.set_requires_gradient_sync(part == PARTS - 1)  # 5
        logits, labels = model(X[part::PARTS]), y[part::PARTS].flatten()
        loss = cross_entropy(logits.float(), labels, reduction="sum") / count
        (world_size * loss).backward()  # 4
        total += loss.detach()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # 6
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(total)
    norm = norm.full_tensor()  # 6
    if rank == 0:
        print(f"step {step}: loss {total.item():.8f}, norm {norm.item():.4f}")

if args.save:
    dcp.save(state(args.steps), checkpoint_id=args.save)  # 7

model.eval()
X, y = (t[rank::world_size].to(device) for t in batch(10_000))  # to test
with torch.no_grad():
    logits = model(X)  # 8
    loss = cross_entropy(logits.float(), y.flatten(), reduction="sum")
sums = torch.stack([loss, (y != NOTHING).sum()])
dist.all_reduce(sums)  # 8
if rank == 0:
    print(f"tested: loss {sums[0] / sums[1]:.8f}")
dist.destroy_process_group()
