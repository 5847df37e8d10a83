"""Train a small transformer on a mesh of up to five axes, on made-up words.

Simulated GPUs, eight of them:

    simgpu run --nproc-per-node 8 mesh.py --pipeline 2 --shard 2 --tensor 2

Two nodes with eight GPUs each (start it on both):

    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d \
        --rdzv-endpoint HOST:29500 mesh.py --shard 2 --context 2 --tensor 4

On the CPU, in one process or more:

    torchrun --standalone --nproc-per-node 2 mesh.py --cpu --tensor 2
"""

import argparse
import math
import os
from collections import namedtuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional as F


def device():
    if args.cpu:
        return torch.device("cpu")
    return torch.accelerator.current_accelerator()


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):  # the tokens of x are dimension 3
        ctx.group = group
        parts = [torch.empty_like(x) for _ in range(group.size())]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, dim=3)

    @staticmethod
    def backward(ctx, gradient):
        parts = gradient.chunk(ctx.group.size(), dim=3)
        parts = [part.contiguous() for part in parts]
        own = torch.empty_like(parts[0])
        dist.reduce_scatter(own, parts, group=ctx.group)
        return own, None


def gather(kv, group):
    kv = torch.stack(kv)
    return Gather.apply(kv, group) if group.size() > 1 else kv


class Attention(nn.Module):
    def __init__(self, sizes, places, own, group):
        super().__init__()
        self.size, self.group = sizes.width // sizes.heads, group
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width)
        self.out = nn.Linear(sizes.width, sizes.width)
        sees = places[own][:, None] >= torch.cat(places)  # queries x keys
        self.register_buffer("sees", sees, persistent=False)

    def forward(self, x):  # (batch, own tokens, width)
        heads = self.qkv(x).unflatten(-1, (-1, 3, self.size))
        q, *kv = heads.permute(3, 0, 2, 1, 4)
        k, v = gather(kv, self.group)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.sees)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, sizes, places, own, group):
        super().__init__()
        h = sizes.width
        self.norms = nn.ModuleList(nn.LayerNorm(h) for _ in range(2))
        self.attention = Attention(sizes, places, own, group)
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class First(nn.Module):
    def __init__(self, sizes, own):
        super().__init__()
        self.word = nn.Embedding(sizes.words, sizes.width)
        self.place = nn.Embedding(sizes.length, sizes.width)
        self.register_buffer("own", own[None], persistent=False)

    def forward(self, words):
        return self.word(words) + self.place(self.own)


class Last(nn.Sequential):
    def __init__(self, sizes):
        head = nn.Linear(sizes.width, sizes.words, bias=False)
        super().__init__(nn.LayerNorm(sizes.width), head)


def zigzag(length, ranks):
    chunks = torch.arange(length).chunk(2 * ranks)
    return [torch.cat([chunks[i], chunks[-1 - i]]) for i in range(ranks)]


def make_layers(sizes, context):
    places, own = zigzag(sizes.length, context.size()), context.rank()
    torch.manual_seed(0)  # the same weights on all ranks
    args = sizes, places, own, context
    blocks = (Block(*args) for _ in range(sizes.layers))
    return [First(sizes, places[own]), *blocks, Last(sizes)]


tokens, norm = Shard(1), SequenceParallel()
columns = ColwiseParallel(input_layouts=tokens)
rows = RowwiseParallel(output_layouts=tokens)
lookup = RowwiseParallel(input_layouts=Replicate(), output_layouts=tokens)
head = ColwiseParallel(input_layouts=tokens, output_layouts=Replicate())
attention = {"attention.qkv": columns, "attention.out": rows}
mlp = {"up": columns, "down": rows}
PLANS = {
    First: {"word": lookup, "place": lookup},
    Block: {"norms.*": norm} | attention | mlp,
    Last: {"0": norm, "1": head},
}


def own_layers(layers, mesh):
    p, i = mesh["pipeline"].size(), mesh.get_local_rank("pipeline")
    own = layers[len(layers) * i // p : len(layers) * (i + 1) // p]
    return nn.Sequential(*own).to(device())


def split(layers, mesh):
    names = "pipeline", "replicate", "fsdp", "tensor"
    ranks = mesh.mesh.flatten(2, 3)  # shard and context together
    weights = DeviceMesh(mesh.device_type, ranks, mesh_dim_names=names)
    part = own_layers(layers, mesh)
    for layer in part:
        parallelize_module(layer, weights["tensor"], PLANS[type(layer)])
    shard(part, weights)
    return part


def shard(part, weights):
    both = weights["replicate"].size() > 1
    data = weights[("replicate", "fsdp") if both else "fsdp"]
    alone = weights["pipeline"].size() == 1
    for module in *part, part:
        fully_shard(module, mesh=data, reshard_after_forward=alone)
        module.set_gradient_divide_factor(1.0)  # adds gradients, no mean
        module.set_force_sum_reduction_for_comms(True)  # gloo can only add


def make_schedule(part, mesh, valid, micro_batches=2):
    def loss_fn(out, y):
        out = out.flatten(0, 1).float()
        return F.cross_entropy(out, y.flatten(), reduction="sum") / valid

    p, i = mesh["pipeline"].size(), mesh.get_local_rank("pipeline")
    group = mesh.get_group("pipeline")
    stage = PipelineStage(part, i, p, device(), group=group)
    how = {"loss_fn": loss_fn, "scale_grads": False}
    return Schedule1F1B(stage, micro_batches, **how)


def deal(texts, mesh):  # a rank's own texts, and its own tokens of each
    replica, replicas = 0, 1
    for axis in "replicate", "shard":
        replica = replica * mesh[axis].size() + mesh.get_local_rank(axis)
        replicas *= mesh[axis].size()
    context = mesh.get_group("context")
    own = zigzag(texts.shape[1], context.size())[context.rank()]
    return texts.chunk(replicas)[replica][:, own].to(device())


def forward_backward(schedule, mesh, x, y):
    losses, i = [], mesh.get_local_rank("pipeline")
    last = i == mesh["pipeline"].size() - 1
    targets = {"target": y, "losses": losses} if last else {}
    schedule.step(*([x] if i == 0 else []), **targets)
    return sum(losses, torch.zeros((), device=device())).detach()


def mean_loss(own, mesh):
    loss = own / mesh["tensor"].size()
    dist.all_reduce(loss)
    return loss


def gradient_norm(part):
    total = torch.zeros((), device=device())
    for gradient in (parameter.grad for parameter in part.parameters()):
        axes = zip(gradient.device_mesh.shape, gradient.placements, strict=True)
        copies = math.prod(n for n, place in axes if place.is_replicate())
        total += gradient.to_local().square().sum() / copies
    dist.all_reduce(total)
    return total.sqrt()


AXES = "pipeline", "replicate", "shard", "context", "tensor"  # last: nearest
Sizes = namedtuple("Sizes", "words width heads layers length")

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
for axis in AXES:
    parser.add_argument(f"--{axis}", type=int, default=1)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--micro-batches", type=int, default=2)
parser.add_argument("--cpu", action="store_true", help="use no GPU")
args = parser.parse_args()

if not args.cpu:
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("gloo" if args.cpu else None)
shape = tuple(getattr(args, axis) for axis in AXES)
mesh = init_device_mesh(device().type, shape, mesh_dim_names=AXES)

sizes = Sizes(words=64, width=32, heads=4, layers=2, length=32)
part = split(make_layers(sizes, mesh.get_group("context")), mesh)
optimizer = torch.optim.AdamW(part.parameters(), lr=1e-2)

texts = torch.randint(sizes.words, (16, sizes.length + 1))  # yours come here
lengths = torch.randint(sizes.length // 4, sizes.length, (16, 1))
padding = torch.arange(sizes.length) >= lengths
X, Y = texts[:, :-1], texts[:, 1:].masked_fill(padding, -100)
valid = (Y != -100).sum()  # of all ranks
schedule = make_schedule(part, mesh, valid, args.micro_batches)

for step in range(args.steps):
    own = forward_backward(schedule, mesh, deal(X, mesh), deal(Y, mesh))
    loss, norm = mean_loss(own, mesh), gradient_norm(part)
    for parameter in part.parameters():
        parameter.grad.to_local().mul_((1.0 / norm).clamp(max=1))
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"step {step}: loss {loss:.4f}, norm {norm:.4f}", flush=True)
dist.destroy_process_group()
