"""Train a small transformer with a mixture of experts, which its ranks share.

Simulated GPUs:

    simgpu run --nproc-per-node 4 experts.py

Real GPUs, or the CPU, in one process or more:

    torchrun --standalone --nproc-per-node 4 experts.py
    torchrun --standalone --nproc-per-node 4 experts.py --cpu
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def device():
    if args.cpu:
        return torch.device("cpu")
    return torch.accelerator.current_accelerator()


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, sent, received):
        ctx.back = received, sent
        new = rows.new_empty(sum(received), rows.shape[1])
        dist.all_to_all_single(new, rows, received, sent)
        return new

    @staticmethod
    def backward(ctx, grad):
        return Exchange.apply(grad.contiguous(), *ctx.back), None, None


class Experts(nn.Module):
    def __init__(self, width, experts, active):
        super().__init__()
        self.active = active
        self.router = nn.Linear(width, experts, bias=False)
        up = torch.randn(experts, width, 4 * width) / width**0.5
        down = torch.randn(experts, 4 * width, width) / (4 * width) ** 0.5
        ranks, rank = dist.get_world_size(), dist.get_rank()
        self.up, self.down = (
            nn.Parameter(x.chunk(ranks)[rank].clone()) for x in (up, down)
        )

    def forward(self, x):  # (own tokens, width)
        top, chosen = self.router(x).softmax(-1).topk(self.active, -1)
        order = chosen.flatten().argsort(stable=True)  # copies, by expert
        counts = chosen.flatten().bincount(minlength=self.router.out_features)
        ours = counts.view(dist.get_world_size(), -1)  # by rank and its experts
        theirs = torch.empty_like(ours)
        dist.all_to_all_single(theirs, ours)
        sent, received = (c.sum(1).tolist() for c in (ours, theirs))
        rows = Exchange.apply(x[order // self.active], sent, received)
        y = Exchange.apply(self.apply_own(rows, theirs), received, sent)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        scores = top / top.sum(-1, keepdim=True)
        return (
            scores[..., None] * y[back].unflatten(0, (-1, self.active))
        ).sum(1)

    def apply_own(self, rows, theirs):
        number = (
            torch.arange(theirs.numel(), device=rows.device) % theirs.shape[1]
        )
        number = number.repeat_interleave(
            theirs.flatten()
        )  # the expert of each row
        out = rows.new_zeros(rows.shape)
        for i, (up, down) in enumerate(zip(self.up, self.down, strict=True)):
            here = (number == i).nonzero().flatten()
            out = out.index_add(0, here, F.gelu(rows[here] @ up) @ down)
        return out  # also without rows it depends on the weights


class Block(nn.Module):
    def __init__(self, width, heads, experts):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.experts = Experts(width, experts, active=2)

    def forward(self, x):  # (own sequences, tokens, width)
        parts = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.experts(self.norms[1](x).flatten(0, 1)).view_as(x)


class Model(nn.Module):
    def __init__(self, words, width, heads, layers, length, experts):
        super().__init__()
        self.word, self.place = (
            nn.Embedding(words, width),
            nn.Embedding(length, width),
        )
        self.blocks = nn.Sequential(
            *(Block(width, heads, experts) for _ in range(layers))
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words))

    def forward(self, words):
        places = torch.arange(words.shape[1], device=words.device)
        return self.head(self.blocks(self.word(words) + self.place(places)))


def sequences(step):  # each counts in steps of its own
    draw = torch.Generator().manual_seed(step)
    start, stride = torch.randint(1, 8, (2, args.batch, 1), generator=draw)
    return (start + stride * torch.arange(args.length + 1)) % args.words


def add_gradients(model):
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            if not isinstance(module, Experts):
                dist.all_reduce(
                    parameter.grad
                )  # experts have seen the tokens of all ranks
            parameter.grad /= dist.get_world_size()


def train():
    torch.manual_seed(0)  # the same weights on all ranks
    model = Model(args.words, args.width, 4, 2, args.length, args.experts).to(
        device()
    )
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(args.steps):
        text = (
            sequences(step)
            .chunk(dist.get_world_size())[dist.get_rank()]
            .to(device())
        )
        logits = model(text[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        add_gradients(model)
        optimizer.step()
        dist.all_reduce(shown := loss.detach() / dist.get_world_size())
        if dist.get_rank() == 0:
            print(
                f"step {step + 1}: loss {shown.item():.4f}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    sizes = {
        "words": 32,
        "width": 64,
        "length": 32,
        "batch": 16,
        "experts": 8,
        "steps": 5,
    }
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    if not args.cpu:
        torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group()
    for name in ("batch", "experts"):
        if vars(args)[name] % dist.get_world_size():
            raise SystemExit(
                f"--{name} {vars(args)[name]}: give a multiple of the ranks"
            )
    train()
    dist.destroy_process_group()
