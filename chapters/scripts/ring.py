"""Train a small transformer whose ranks share every sequence: ring attention.

Simulated GPUs:

    simgpu run --nproc-per-node 4 ring.py

Real GPUs, or the CPU, in one process or more:

    torchrun --standalone --nproc-per-node 4 ring.py
    torchrun --standalone --nproc-per-node 4 ring.py --cpu
"""

import argparse
import math
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

ALL = slice(None)


def device():
    if args.cpu:
        return torch.device("cpu")
    return torch.accelerator.current_accelerator()


def own_places(length):  # zigzag: one chunk from the front, one from the back
    chunks = torch.arange(length).chunk(2 * dist.get_world_size())
    return torch.cat([chunks[dist.get_rank()], chunks[-1 - dist.get_rank()]])


def sees(source, n):  # queries, keys, whether the mask applies
    if source == dist.get_rank():
        return ALL, ALL, True
    if source < dist.get_rank():
        return ALL, slice(n // 2), False
    return slice(n // 2, None), ALL, False


def pass_on(*tensors):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    new = [torch.empty_like(x) for x in tensors]
    sends = [dist.P2POp(dist.isend, x, (rank + 1) % ranks) for x in tensors]
    receives = [dist.P2POp(dist.irecv, x, (rank - 1) % ranks) for x in new]
    return dist.batch_isend_irecv(sends + receives), new


def arrived(works, new):
    for work in works:
        work.wait()
    return new


def scores_of(q, k, causal):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        later = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores


def attend(q, k, v, causal):
    scores = scores_of(q, k, causal)
    lse = scores.logsumexp(-1)
    return (scores - lse[..., None]).exp() @ v, lse


def merge(out, lse, more, more_lse):
    both = torch.logaddexp(lse, more_lse)
    old, new = ((x - both).exp()[..., None] for x in (lse, more_lse))
    out.copy_(old * out + new * more)
    lse.copy_(both)


def steps(k, v):  # whose keys and values are here, while the next ones come
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for step in range(ranks):
        works, following = pass_on(k, v) if step + 1 < ranks else ([], (k, v))
        yield (rank - step) % ranks, k, v
        k, v = arrived(works, following)


class Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., 0], -math.inf)
        for source, k_here, v_here in steps(k, v):
            i, j, causal = sees(source, q.shape[2])
            part = attend(q[:, :, i], k_here[:, :, j], v_here[:, :, j], causal)
            merge(out[:, :, i], lse[:, :, i], *part)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        rows = (grad * out).sum(-1, keepdim=True)
        dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
        for source, k_here, v_here in steps(k, v):
            i, j, causal = sees(source, q.shape[2])
            scores = scores_of(q[:, :, i], k_here[:, :, j], causal)
            weights = (scores - lse[:, :, i, None]).exp()
            by_scores = weights * (
                grad[:, :, i] @ v_here[:, :, j].mT - rows[:, :, i]
            )
            by_scores = by_scores / math.sqrt(q.shape[-1])
            dq[:, :, i] += by_scores @ k_here[:, :, j]
            dk[:, :, j] += by_scores.mT @ q[:, :, i]
            dv[:, :, j] += weights.mT @ grad[:, :, i]
            if dist.get_world_size() > 1:  # gradients travel with their keys
                dk, dv = arrived(*pass_on(dk, dv))
        return dq, dk, dv


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.up, self.down = (
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):  # (batch, own tokens, width)
        parts = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = (part.contiguous() for part in parts.permute(2, 0, 3, 1, 4))
        x = x + self.out(Ring.apply(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Model(nn.Module):
    def __init__(self, words, width, heads, layers, length):
        super().__init__()
        self.word, self.place = (
            nn.Embedding(words, width),
            nn.Embedding(length, width),
        )
        self.blocks = nn.Sequential(
            *(Block(width, heads) for _ in range(layers))
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words))

    def forward(self, words, places):
        return self.head(self.blocks(self.word(words) + self.place(places)))


def sequences(step):  # each counts in steps of its own
    draw = torch.Generator().manual_seed(step)
    start, stride = torch.randint(1, 8, (2, args.batch, 1), generator=draw)
    return (start + stride * torch.arange(args.length + 1)) % args.words


def train():
    torch.manual_seed(0)  # the same weights on all ranks
    model = Model(args.words, args.width, 4, 2, args.length).to(device())
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    own = own_places(args.length)
    for step in range(args.steps):
        text = sequences(step)
        words, targets = (text[:, own + i].to(device()) for i in (0, 1))
        logits = model(words, own.to(device()))
        loss = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="sum"
        )
        loss = loss / (args.batch * args.length)  # of the tokens of all ranks
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        dist.all_reduce(shown := loss.detach())
        if dist.get_rank() == 0:
            print(f"step {step + 1}: loss {shown.item():.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, value in {
        "words": 32,
        "width": 64,
        "length": 64,
        "batch": 8,
        "steps": 5,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    if not args.cpu:
        torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group()
    if args.length % (2 * dist.get_world_size()):
        raise SystemExit(
            f"--length {args.length}: give a multiple of twice the ranks"
        )
    train()
    dist.destroy_process_group()
