"""Data parallelism as scripts for torchrun write it: a trainer with snapshots, on CUDA."""

import argparse
import os

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Numbers(Dataset):
    """Random inputs, and a linear function of them with noise."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(3)
        self.inputs = torch.randn(size, 20, generator=generator)
        noise = torch.randn(size, 1, generator=generator)
        self.targets = self.inputs.sum(1, keepdim=True) + 0.1 * noise

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


class Trainer:
    """Trains a model on the GPU of this process."""

    def __init__(self, model, loader, optimizer, snapshot):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.rank = int(os.environ["RANK"])
        self.model = model.to(self.local_rank)
        self.loader, self.optimizer, self.snapshot = loader, optimizer, snapshot
        self.first_epoch = 0
        if os.path.exists(snapshot):
            saved = torch.load(snapshot, map_location=f"cuda:{self.local_rank}")
            self.model.load_state_dict(saved["model"])
            self.first_epoch = saved["epoch"]
        self.model = DistributedDataParallel(self.model, device_ids=[self.local_rank])

    def train(self, epochs):
        for epoch in range(self.first_epoch, epochs):
            self.loader.sampler.set_epoch(epoch)
            for inputs, targets in self.loader:
                inputs = inputs.to(self.local_rank, non_blocking=True)
                targets = targets.to(self.local_rank, non_blocking=True)
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.model(inputs), targets)
                loss.backward()
                self.optimizer.step()
            total = loss.detach().clone()
            torch.distributed.all_reduce(total, op=torch.distributed.ReduceOp.AVG)
            if self.rank == 0:
                print(f"epoch {epoch} loss {total.item():.9g}")
                saved = {"model": self.model.module.state_dict(), "epoch": epoch + 1}
                torch.save(saved, self.snapshot)


def main(epochs, snapshot):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 1))
    data = Numbers(256)
    loader = DataLoader(
        data, batch_size=32, pin_memory=True, shuffle=False, sampler=DistributedSampler(data)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    Trainer(model, loader, optimizer, snapshot).train(epochs)
    destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("snapshot")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    main(args.epochs, args.snapshot)
