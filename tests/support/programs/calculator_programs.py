"""What the calculators predict, as programs for the simulated ranks."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from d2lmini import sim

OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "adamw": (torch.optim.AdamW, {"lr": 0.1}),
}
STEPS = 3  # from the second on, each is the same


def stack(width, layers, batch, dtype, device, input_dtype=None):
    """Return the network and a batch."""
    with torch.device(device):
        net = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers)))
        return net.to(dtype), torch.zeros(batch, width, dtype=input_dtype or dtype)


def step_seconds(rank, width, layers, batch, dtype, bucket):
    """Train with DistributedDataParallel; return the seconds of the last step."""
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    dtype = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    model, X = stack(width, layers, batch, dtype, device)
    if dist.get_world_size() > 1:
        model = DistributedDataParallel(model, bucket_cap_mb=bucket / 2**20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        sim.synchronize()
        begin = sim.now()
        model(X).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        sim.synchronize()
        seconds = sim.now() - begin
    return seconds


def shard(net, stage, mixed):
    """Wrap the network as a stage of ZeRO does, from 0 on."""
    if stage < 2:
        return DistributedDataParallel(net) if dist.get_world_size() > 1 else net
    how = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16)} if mixed else {}
    for layer in net:
        fully_shard(layer, reshard_after_forward=stage == 3, **how)
    return fully_shard(net, reshard_after_forward=stage == 3, **how)


def peak_bytes(rank, width, layers, batch, precision, optimizer, stage):
    """Train; return the most bytes that were allocated in the last step."""
    dist.init_process_group()
    device, mixed = torch.accelerator.current_accelerator(), precision == "mixed"
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    input_dtype = torch.bfloat16 if mixed and stage >= 2 else dtype
    net, X = stack(width, layers, batch, dtype, device, input_dtype)
    model = shard(net, stage, mixed)
    kind, options = OPTIMIZERS[optimizer]
    if stage == 1:
        optimizer = ZeroRedundancyOptimizer(model.parameters(), kind, **options)
    else:
        optimizer = kind(model.parameters(), **options)
    for _ in range(STEPS):
        sim.reset_peak_memory_stats(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=mixed and stage < 2):
            loss = model(X).sum()
        loss.backward()
        del loss
        optimizer.step()
        optimizer.zero_grad()
    return sim.max_memory_allocated(device)
