"""Raschka's book: GPT-2 from single operations, then one change after the other.

The output layer has weights of its own. The loss is computed outside the model. Without options the
model is the one of the book's text: own norm and activation, a product for each of queries, keys
and values, attention of single operations, 32 bits.
"""

import argparse
import math
from contextlib import nullcontext
from functools import partial

import torch
from torch import nn

from benchmarks.compiled.programs.gpt2 import GPT, Attention, Fused, Sizes, loss_of, random_batch
from benchmarks.compiled.programs.starting import is_alone, one_of_many
from benchmarks.compiled.programs.timing import report

DROPOUT = 0.1


class Norm(nn.Module):
    """Layer norm in single operations."""

    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        """Return `x` with mean 0 and variance 1, scaled and shifted."""
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        return self.scale * ((x - mean) / torch.sqrt(variance + 1e-5)) + self.shift


def gelu(x):
    """Return GELU by its approximation, in single operations."""
    root = torch.sqrt(torch.tensor(2.0 / torch.pi, device=x.device, dtype=x.dtype))
    return 0.5 * x * (1 + torch.tanh(root * (x + 0.044715 * torch.pow(x, 3))))


class SingleAttention(nn.Module):
    """Attention of single operations; a mask is kept, or made at each call."""

    def __init__(self, sizes, kept):
        super().__init__()
        linear = partial(nn.Linear, sizes.width, sizes.width)
        self.q, self.k, self.v = (linear(bias=False) for _ in range(3))
        self.out, self.heads, self.drop = linear(), sizes.heads, nn.Dropout(DROPOUT)
        if kept:
            self.register_buffer("mask", torch.triu(torch.ones(sizes.seq, sizes.seq), 1))
        self.kept = kept

    def forward(self, x):
        """Mix each token with those before it."""
        q, k, v = (
            part(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        scores = (q @ k.transpose(2, 3)).masked_fill_(self._later(x), -torch.inf)
        shares = self.drop(torch.softmax(scores / math.sqrt(k.shape[-1]), dim=-1))
        return self.out((shares @ v).transpose(1, 2).contiguous().flatten(2))

    def _later(self, x):
        if self.kept:
            return self.mask.bool()
        ones = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        return torch.triu(ones, diagonal=1)


def build(args, sizes):
    """Return the model."""
    if args.fused_attention:
        attention = partial(Attention, sizes, Fused(DROPOUT), bias=False)
    else:
        attention = partial(SingleAttention, sizes, kept=not args.mask_anew)
    own = {} if args.pytorch_layers else {"norm": Norm, "gelu": gelu}
    with torch.device("cuda"):
        model = GPT(sizes, attention, dropout=DROPOUT, **own)
    return model.to(torch.bfloat16) if args.bfloat16 else model


def make_step(args):
    """Return a function that does a step of training."""
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    sizes = Sizes(vocabulary=args.vocabulary)
    model = build(args, sizes)
    model = torch.compile(model) if args.compile else model
    if args.ddp:
        model = nn.parallel.DistributedDataParallel(model, [torch.cuda.current_device()])
    fused = {"fused": True} if args.fused_adamw else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, **fused)
    tokens, targets = random_batch(args.batch, sizes), random_batch(args.batch, sizes)

    def step():
        optimizer.zero_grad()
        loss_of(model(tokens), targets).backward()
        optimizer.step()

    return step


def main():
    """Time a step."""
    parser = argparse.ArgumentParser()
    for name in ("mask-anew", "tf32", "fused-adamw", "bfloat16", "pytorch-layers",
                 "fused-attention", "compile"):  # fmt: skip
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--vocabulary", type=int, default=Sizes().vocabulary)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    args.ddp = not is_alone()
    with one_of_many() if args.ddp else nullcontext():
        report(make_step(args))


if __name__ == "__main__":
    main()
