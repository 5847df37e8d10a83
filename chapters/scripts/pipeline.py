"""Train a small network, cut into one stage for each process, on made-up data.

Two processes, on the GPUs that there are, else on the CPU:

    torchrun --standalone --nproc-per-node 2 pipeline.py

Four simulated GPUs:

    simgpu run --nproc-per-node 4 pipeline.py --schedule GPipe
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules
from torch.nn.functional import cross_entropy

parser = argparse.ArgumentParser()
parser.add_argument("--schedule", default="1F1B", choices=("GPipe", "1F1B"))
parser.add_argument("--micro-batches", type=int, default=8)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--max-norm", type=float, default=0.2)
parser.add_argument("--cpu", action="store_true", help="use no GPU")
args = parser.parse_args()

device = torch.device("cpu")
if torch.accelerator.is_available() and not args.cpu:
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
dist.init_process_group("gloo" if args.cpu else None)
rank, p = dist.get_rank(), dist.get_world_size()
is_first, is_last = rank == 0, rank == p - 1

torch.manual_seed(0)
X = torch.randn(4, 64, 64)  # four minibatches, the same in every process
y = X[..., :10].argmax(dim=-1)
layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(7)]
layers.append(nn.Linear(64, 10))
part = nn.Sequential(*layers[rank * 8 // p : (rank + 1) * 8 // p])  # 1
part.to(device)
stage = PipelineStage(part, rank, p, device)  # 2
make_schedule = getattr(schedules, f"Schedule{args.schedule}")
schedule = make_schedule(stage, args.micro_batches, loss_fn=cross_entropy)  # 3
optimizer = torch.optim.AdamW(part.parameters(), lr=1e-2)  # 4


def clip(parameters, max_norm):
    gradients = [parameter.grad for parameter in parameters]
    square = sum((gradient**2).sum() for gradient in gradients)
    dist.all_reduce(square)  # 5
    norm = square.sqrt()
    for gradient in gradients:
        gradient.mul_((max_norm / norm).clamp(max=1))
    return norm.item()


for step in range(args.steps):
    features, labels = X[step % 4].to(device), y[step % 4].to(device)
    losses = []
    inputs = [features] if is_first else []  # 6
    targets = {"target": labels, "losses": losses} if is_last else {}  # 6
    schedule.step(*inputs, **targets)  # 7
    norm = clip(part.parameters(), args.max_norm)  # 8
    optimizer.step()
    optimizer.zero_grad()
    if is_last:
        loss = torch.stack(losses).mean().item()
        print(f"step {step}: loss {loss:.6f}, norm {norm:.6f}", flush=True)
dist.destroy_process_group()
