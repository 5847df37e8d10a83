"""A layer of experts that are split among the ranks, trained by a script under torchrun.

Each rank sends its tokens to the ranks of their experts, as many as the router says, by an uneven
all-to-all, and gets the results back. Its argument is the width of a token.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

EXPERTS, EACH, TOKENS = 8, 2, 4096


class Exchange(torch.autograd.Function):
    """All-to-all of parts of any size; backward the gradients go the other way."""

    @staticmethod
    def forward(ctx, x, get, send):
        ctx.sizes = get, send
        y = x.new_empty(sum(get), *x.shape[1:])
        dist.all_to_all_single(y, x.contiguous(), get, send)
        return y

    @staticmethod
    def backward(ctx, grad):
        get, send = ctx.sizes
        return Exchange.apply(grad, send, get), None, None


class Experts(nn.Module):
    """Tokens to the ranks of their experts, through these, and back."""

    def __init__(self, ranks, hidden):
        super().__init__()
        self.ranks, self.own = ranks, EXPERTS // ranks
        self.router = nn.Linear(hidden, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(self.own, hidden, 2 * hidden) / hidden**0.5)
        self.down = nn.Parameter(torch.randn(self.own, 2 * hidden, hidden) / hidden**0.5)

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(EACH, -1)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=EXPERTS)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        send, get = (c.view(self.ranks, -1).sum(1).tolist() for c in (counts, theirs))
        got = Exchange.apply(x[order // EACH], get, send)
        expert = torch.arange(self.own, device=x.device).repeat(self.ranks)
        by_expert = expert.repeat_interleave(theirs).argsort(stable=True)
        sizes = theirs.view(self.ranks, -1).sum(0).tolist()
        self.last = counts.tolist(), sizes
        parts = got[by_expert].split(sizes)
        each = zip(parts, self.up, self.down, strict=True)
        y = torch.cat([F.silu(part @ up) @ down for part, up, down in each])
        y = torch.zeros_like(y).index_copy(0, by_expert, y)
        y = Exchange.apply(y, send, get) * weights.flatten()[order].unsqueeze(-1)
        return x.index_add(0, order // EACH, y)


def main():
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
    dist.init_process_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    hidden = int(sys.argv[1])
    layer = Experts(ranks, hidden).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-6)
    x = torch.randn(TOKENS, hidden, device=device)
    for _ in range(3):
        layer(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    counts, own = layer.last
    print(f"rank {rank}: sends {counts}, has {own}", flush=True)


if __name__ == "__main__":
    main()
