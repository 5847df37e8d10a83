"""Autocast applies to tensors that wrap simulated ones, and to no tensor of the host."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import simgpu as sim


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def make_batch():
    return torch.randn(6, 8, generator=torch.Generator().manual_seed(1))


def train(net, device, x):
    """Return the output under autocast, the loss, and the gradients, on the host."""
    with torch.autocast(device, dtype=torch.bfloat16):
        out = net(x)
        loss = nn.functional.mse_loss(out, torch.ones_like(out))
    loss.backward()
    grads = [p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
             for p in net.parameters()]  # fmt: skip
    return out, loss, [g.cpu() for g in grads]


def split(rank):
    dist.init_process_group()
    device = torch.accelerator.current_accelerator().type
    mesh = init_device_mesh(device, (2,))
    net = parallelize_module(
        make_net().to(device), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}
    )
    out, loss, grads = train(net, device, make_batch().to(device))
    host = torch.ones(3, 3)
    a = DTensor.from_local(torch.ones(4, 4, device=device), mesh, [Shard(0)])
    b = DTensor.from_local(torch.ones(4, 4, device=device), mesh, [Replicate()])
    with torch.autocast(device, dtype=torch.bfloat16):
        types = [(host @ host).dtype, (a @ b).dtype, (a @ b).exp().dtype, torch.cat([a, b]).dtype]
    return out.dtype, loss.dtype, loss.item(), grads, types


def test_a_split_network_trains_as_a_whole_one_under_autocast():
    """The reference is PyTorch's own autocast on the CPU, of the network that is not split."""
    out, loss, wanted = train(make_net(), "cpu", make_batch())
    assert out.dtype is torch.bfloat16
    for found in sim.spawn(split, nprocs=2):
        dtype, of_loss, value, grads, types = found
        assert (dtype, of_loss) == (torch.bfloat16, torch.float32)
        assert types == [torch.float32, torch.bfloat16, torch.float32, torch.float32]
        assert abs(value - loss.item()) < 0.02 * loss.item()
        for grad, right in zip(grads, wanted, strict=True):
            assert grad.dtype is torch.float32
            torch.testing.assert_close(grad, right, rtol=0.05, atol=0.02)
