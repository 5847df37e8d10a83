"""Train a model whose layers are split over all ranks, on made-up words.

Two processes, on the GPUs that there are, else on the CPU:

    torchrun --standalone --nproc-per-node 2 tensor_parallel.py

Two simulated GPUs:

    python -m d2lmini.sim.run --nproc-per-node 2 tensor_parallel.py
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--words", type=int, default=64, help="of the vocabulary")
parser.add_argument("--hidden", type=int, default=32)
parser.add_argument("--cpu", action="store_true", help="use no GPU")
args = parser.parse_args()

device = torch.device("cpu")
if torch.accelerator.is_available() and not args.cpu:
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
dist.init_process_group("gloo" if args.cpu else None)

torch.manual_seed(0)  # the same weights and the same texts on every rank
model = nn.Sequential(
    nn.Embedding(args.words, args.hidden),
    nn.Linear(args.hidden, 4 * args.hidden),
    nn.GELU(),
    nn.Linear(4 * args.hidden, args.hidden),
    nn.Linear(args.hidden, args.words, bias=False),
).to(device)
plan = {
    "0": RowwiseParallel(input_layouts=Replicate()),
    "1": ColwiseParallel(),
    "3": RowwiseParallel(),
    "4": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
}
mesh = init_device_mesh(device.type, (dist.get_world_size(),))
model = parallelize_module(model, mesh, plan)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
inputs, targets = torch.randint(args.words, (2, 128)).to(device)
for step in range(args.steps):
    with loss_parallel():
        loss = functional.cross_entropy(model(inputs), targets)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    value = loss.full_tensor().item()
    if dist.get_rank() == 0:
        print(f"step {step}: loss {value:.6f}")
dist.destroy_process_group()
