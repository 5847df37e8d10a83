"""Train with DDP, as one file for torchrun and for simulated GPUs.

Two processes, on the GPUs that there are, else on the CPU:

    torchrun --standalone --nproc-per-node 2 ddp_plain.py

Two simulated GPUs:

    simgpu run --nproc-per-node 2 --gpu h100 ddp_plain.py
"""

import argparse
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)  # of all ranks
parser.add_argument("--parts", type=int, default=1)  # of each share
parser.add_argument("--cpu", action="store_true", help="use no GPU")
parser.add_argument("--save", metavar="FILE")
args = parser.parse_args()

device = torch.device("cpu")
if torch.accelerator.is_available() and not args.cpu:
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))  # 1
    device = torch.accelerator.current_accelerator()
dist.init_process_group("gloo" if args.cpu else None)  # 2
rank, world_size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
X = torch.randn(613, 64)
y = (X @ torch.randn(64, 10)).argmax(dim=1)
train_set = TensorDataset(X[:512], y[:512])
sampler = DistributedSampler(train_set)  # 3
assert args.batch_size % world_size == 0, "not divisible"  # 4
share = args.batch_size // world_size  # 4
loader = DataLoader(train_set, share, sampler=sampler)
X_test, y_test = X[512:].to(device), y[512:].to(device)
X_test, y_test = X_test[rank::world_size], y_test[rank::world_size]  # 5

net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
model = DistributedDataParallel(net.to(device))  # 6
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(3):
    sampler.set_epoch(epoch)  # 7
    sums = torch.zeros(4, device=device)  # losses, examples, hits, tested
    for features, labels in loader:
        features, labels = features.to(device), labels.to(device)
        optimizer.zero_grad()
        for part in range(args.parts):
            x, target = (t[part :: args.parts] for t in (features, labels))
            is_last = part == args.parts - 1
            with nullcontext() if is_last else model.no_sync():  # 6
                loss = cross_entropy(model(x), target, reduction="sum")
                (loss / len(labels)).backward()
            sums[0] += loss.detach()
        optimizer.step()
        sums[1] += len(labels)
    with torch.no_grad():
        hits = net(X_test).argmax(dim=1) == y_test
    sums[2], sums[3] = hits.sum(), len(hits)
    dist.all_reduce(sums)  # 8
    loss, accuracy = sums[0] / sums[1], sums[2] / sums[3]
    if rank == 0:  # 9
        print(f"epoch {epoch}: loss {loss:.8f}, accuracy {accuracy:.4f}")
        if args.save:
            weights = {k: v.cpu() for k, v in net.state_dict().items()}
            torch.save(weights, args.save)
    dist.barrier()  # 10
dist.destroy_process_group()  # 10
