"""A DDP trainer class with NCCL, pinned batches, and a snapshot that a second run resumes from."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    """Trains a model; writes a snapshot after each epoch."""

    def __init__(self, model, loader, optimizer, snapshot):
        self.local_rank, self.rank = int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"])
        self.on_gpu = torch.cuda.is_available()
        self.device = torch.device(f"cuda:{self.local_rank}" if self.on_gpu else "cpu")
        self.model, self.loader, self.optimizer = model.to(self.device), loader, optimizer
        self.snapshot, self.epochs_run = snapshot, 0
        if os.path.exists(snapshot):
            self.load()
        ids = [self.local_rank] if self.on_gpu else None
        self.model = DistributedDataParallel(self.model, device_ids=ids)

    def load(self):
        state = torch.load(self.snapshot, map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epochs_run = state["epochs_run"]
        print(f"rank {self.rank} resumes after epoch {self.epochs_run - 1}", flush=True)

    def save(self):
        state = {"model": self.model.module.state_dict(), "epochs_run": self.epochs_run}
        torch.save(state | {"optimizer": self.optimizer.state_dict()}, self.snapshot)

    def step(self, features, targets):
        features = features.to(self.device, non_blocking=True)
        targets = targets.to(self.device, non_blocking=True)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(features), targets)
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, num_epochs):
        while self.epochs_run < num_epochs:
            self.loader.sampler.set_epoch(self.epochs_run)
            for features, targets in self.loader:
                loss = self.step(features, targets)
            print(f"rank {self.rank} epoch {self.epochs_run} loss {loss.item()!r}", flush=True)
            self.epochs_run += 1
            if self.rank == 0:
                self.save()
        total = sum(p.detach().double().sum() for p in self.model.parameters())
        print(f"rank {self.rank} parameters {total.item()!r}", flush=True)


def main(num_epochs, snapshot):
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(backend="nccl")
    else:
        dist.init_process_group(backend="gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 20), torch.randint(5, (96,)))
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = DataLoader(data, 16, pin_memory=True, sampler=DistributedSampler(data))
    Trainer(model, loader, optimizer, snapshot).train(num_epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("num_epochs", type=int)
    parser.add_argument("snapshot")
    main(**vars(parser.parse_args()))
