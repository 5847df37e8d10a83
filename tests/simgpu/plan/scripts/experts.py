"""Train a mixture of experts, one on each rank: torchrun --nproc-per-node 8 experts.py.

All else is replicated, and its gradients are averaged behind the backward pass.
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from llama import Attention, rotations
from masters import BufferedAdamW
from torch import nn
from torch.distributed.nn.functional import all_to_all_single

HIDDEN, HEADS, KV_HEADS, INNER, LAYERS, VOCABULARY = 2048, 16, 8, 2048, 8, 32_000
EXPERTS, ACTIVE, BATCH, SEQ = 8, 2, 4, 2048


class Experts(nn.Module):
    """Sends each token to `ACTIVE` of `EXPERTS` feed-forward parts, wherever these are."""

    def __init__(self, ranks):
        super().__init__()
        self.ranks, self.own = ranks, EXPERTS // ranks
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.empty(self.own, HIDDEN, 2 * INNER))
        self.down = nn.Parameter(torch.empty(self.own, INNER, HIDDEN))

    def forward(self, x):
        """Route, send, compute, send back, and add up; x is (batch, sequence, hidden)."""
        tokens = x.flatten(0, 1)
        chances, chosen = self.router(tokens).float().softmax(-1).topk(ACTIVE, -1)
        order = chosen.flatten().argsort(stable=True)
        to_each = torch.bincount(chosen.flatten(), minlength=EXPERTS)
        from_each = torch.empty_like(to_each)
        dist.all_to_all_single(from_each, to_each)
        sent = to_each.view(self.ranks, -1).sum(1).tolist()
        received = from_each.view(self.ranks, -1).sum(1).tolist()
        rows = tokens[order // ACTIVE]
        here = all_to_all_single(rows.new_empty(sum(received), HIDDEN), rows, received, sent)
        back = all_to_all_single(torch.empty_like(rows), self.compute(here), sent, received)
        y = back[order.argsort()].view(*chances.shape, HIDDEN) * chances.to(x.dtype).unsqueeze(-1)
        return y.sum(1).view_as(x)

    def compute(self, x):
        """Run the experts of this rank: one, whose rows need no order."""
        gate, y = (x @ self.up[0]).chunk(2, -1)
        return (F.silu(gate) * y) @ self.down[0]


class Block(nn.Module):
    """Attention and experts, each behind an RMS norm."""

    def __init__(self, ranks):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attention, self.experts = Attention(HIDDEN, HEADS, KV_HEADS), Experts(ranks)

    def forward(self, x, rotations):
        """Add what both parts make of x."""
        x = x + self.attention(self.norm1(x), rotations)
        return x + self.experts(self.norm2(x))


class Model(nn.Module):
    """Tokens to the loss."""

    def __init__(self, ranks):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block(ranks) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN)
        self.output = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens, rotations):
        """Return the loss."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, rotations)
        logits = self.output(self.norm(x)).flatten(0, 1)
        return F.cross_entropy(logits.float(), tokens.flatten())


def average(optimizer):
    """Average the gradients of what all ranks have; those of experts are a rank's own."""
    for parameter, gradient in optimizer.views.items():
        if parameter.ndim < 3:
            dist.all_reduce(gradient, dist.ReduceOp.AVG)


dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
model = Model(dist.get_world_size()).to(device).bfloat16()
turns = rotations(HIDDEN // HEADS, SEQ).to(device)
optimizer = BufferedAdamW(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, VOCABULARY, (BATCH, SEQ), device=device)
    model(tokens, turns).backward()
    average(optimizer)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
