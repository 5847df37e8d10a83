"""Train a small network, cut into one stage for each process, on made-up data.

Two processes, on the GPUs that there are, else on the CPU:

    torchrun --standalone --nproc-per-node 2 pipeline.py

Four simulated GPUs:

    python -m d2lmini.sim.run --nproc-per-node 4 pipeline.py --schedule GPipe
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--schedule", default="1F1B", choices=("GPipe", "1F1B"))
parser.add_argument("--micro-batches", type=int, default=8)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--cpu", action="store_true", help="use no GPU")
args = parser.parse_args()

device = torch.device("cpu")
if torch.accelerator.is_available() and not args.cpu:
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
dist.init_process_group("gloo" if args.cpu else None)
rank, world_size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(
    0
)  # every process makes the whole network, and keeps its stage
layers = [nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(8)]
X, y = torch.randn(64, 32).to(device), torch.randn(64, 32).to(device)
each = len(layers) // world_size
part = nn.Sequential(*layers[rank * each : (rank + 1) * each]).to(device)
stage = PipelineStage(part, rank, world_size, device)
make_schedule = getattr(schedules, f"Schedule{args.schedule}")
schedule = make_schedule(
    stage, args.micro_batches, loss_fn=nn.functional.mse_loss
)
optimizer = torch.optim.SGD(part.parameters(), lr=0.5)

for step in range(args.steps):
    losses = []
    inputs = [X] if rank == 0 else []
    targets = {"target": y, "losses": losses} if rank == world_size - 1 else {}
    schedule.step(*inputs, **targets)
    optimizer.step()
    optimizer.zero_grad()
    if losses:
        print(
            f"step {step}: loss {torch.stack(losses).mean().item():.6f}",
            flush=True,
        )
dist.destroy_process_group()
