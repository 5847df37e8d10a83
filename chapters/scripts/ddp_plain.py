"""Train with DDP, as one file for torchrun and for simulated GPUs.

Two processes, on the GPUs that there are, else on the CPU:

    torchrun --standalone --nproc-per-node 2 ddp_plain.py

Two simulated GPUs:

    python -m d2lmini.sim.run --nproc-per-node 2 --gpu h100 ddp_plain.py
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=32, help="of a rank")
parser.add_argument("--cpu", action="store_true", help="use no GPU")
parser.add_argument("--save", metavar="FILE")
args = parser.parse_args()

device = torch.device("cpu")
if torch.accelerator.is_available() and not args.cpu:
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
dist.init_process_group()

torch.manual_seed(0)  # the same data and the same weights on every rank
X = torch.randn(512, 64)
y = (X @ torch.randn(64, 10)).argmax(dim=1)
dataset = TensorDataset(X, y)
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, args.batch_size, sampler=sampler)
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
model = DistributedDataParallel(net.to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    totals = torch.zeros(3, device=device)  # loss, hits, examples
    for features, labels in loader:
        features, labels = features.to(device), labels.to(device)
        outputs = model(features)
        loss = nn.functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits = (outputs.argmax(dim=1) == labels).sum()
        size = torch.tensor(len(labels), device=device)
        totals += torch.stack([loss.detach() * size, hits, size])
    dist.all_reduce(totals)
    if dist.get_rank() == 0:
        loss, accuracy = (totals[:2] / totals[2]).tolist()
        print(f"epoch {epoch}: loss {loss:.8f}, accuracy {accuracy:.4f}")

if args.save and dist.get_rank() == 0:
    weights = {k: v.cpu() for k, v in model.module.state_dict().items()}
    torch.save(weights, args.save)
dist.destroy_process_group()
