"""Train a ResNet-18 with DDP on made-up images, and say how long a step takes.

Two processes, on the GPUs that there are, else on the CPU:

    torchrun --standalone --nproc-per-node 2 ddp_resnet.py

Eight simulated GPUs on PCIe 4, times only:

    simgpu run --nproc-per-node 8 --gpu a100 --link pcie4 \\
        --shapes-only --ranks 0 ddp_resnet.py --batch-size 256
"""

import argparse
import os

import torch
import torch.distributed as dist
from d2lmini import Timer, resnet18
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--batch-size", type=int, default=16, help="of a rank")
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--width", type=int, default=64, help="of the first stage")
parser.add_argument("--bucket-cap-mb", type=float, help="default: DDP's")
parser.add_argument("--cpu", action="store_true", help="use no GPU")
args = parser.parse_args()

device = torch.device("cpu")
if torch.accelerator.is_available() and not args.cpu:
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
dist.init_process_group("gloo" if args.cpu else None)

torch.manual_seed(0)  # the same weights on every rank
model = DistributedDataParallel(
    resnet18(width=args.width).to(device), bucket_cap_mb=args.bucket_cap_mb
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(1 + dist.get_rank())  # other images on every rank
X = torch.randn(args.batch_size, 1, 28, 28).to(device)
y = torch.randint(10, (args.batch_size,)).to(device)

timer, losses = Timer(device), []
for _ in range(args.steps):
    timer.start()
    loss = functional.cross_entropy(model(X), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    timer.stop()
    losses.append(loss.detach())

means = torch.stack(losses) / dist.get_world_size()
dist.all_reduce(means)
means = means.tolist()
if dist.get_rank() == 0:
    for step, loss in enumerate(means):
        print(f"step {step}: loss {loss:.6f}")
    print(f"the fastest step takes {1e3 * min(timer.times):.2f} ms")
dist.destroy_process_group()
