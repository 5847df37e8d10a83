"""DDP in processes that the script starts itself, with ``mp.spawn`` and no ``torchrun``."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def run(rank, world_size, num_steps):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "29571"
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=world_size)
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 3).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(world_size, 16, 8)[rank].to(device)
    for step in range(num_steps):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step} loss {loss.item()!r}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    world_size = torch.cuda.device_count() if torch.cuda.is_available() else 2
    mp.spawn(run, args=(world_size, 3), nprocs=world_size, join=True)
