"""A loader that skips batches sets the sampler back to epoch 0 (huggingface/accelerate#4071)."""

import copy
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset

REPAIRED, BATCH, STOP = "--repaired" in sys.argv, 16, 2
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")


class Skipping(BatchSampler):
    """The batches of another sampler without the first ones."""

    def __init__(self, batches, skip):
        super().__init__(batches.sampler, batches.batch_size, drop_last=False)
        self.skip = skip

    def __iter__(self):
        yield from list(super().__iter__())[self.skip :]


class EpochLoader(DataLoader):
    """A loader that tells its sampler the epoch, by counting its passes."""

    epoch = 0

    def __iter__(self):
        self.batch_sampler.sampler.set_epoch(self.epoch)
        self.epoch += 1
        return super().__iter__()


def skip_first_batches(loader, count):
    """Return a loader for the rest of an epoch in which `count` batches are done."""
    rest = EpochLoader(data, batch_sampler=Skipping(loader.batch_sampler, count))
    if REPAIRED:
        rest.epoch = loader.epoch - 1  # that of the pass which was interrupted
    return rest


def train(loader, most=None):
    for i, (x, y) in enumerate(loader):
        if i == most:
            break
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        optimizer.step()


torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 16), torch.randn(64, 1))
sampler = DistributedSampler(data)
loader = EpochLoader(
    data, batch_sampler=BatchSampler(sampler, BATCH // dist.get_world_size(), False)
)
model = DistributedDataParallel(nn.Linear(16, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(loader)
train(loader, STOP)
saved = copy.deepcopy(model.state_dict())  # the job ends here, and starts again
model.load_state_dict(saved)
train(skip_first_batches(loader, STOP))
