"""The language model of Stanford's course CS336, of the course's own layers, as a student timed it.

Norm, softmax, rotation of positions, activation and loss are single operations. All numbers have 32
bits, products are in TF32. The model is compiled, the loss is not, and no weight is updated.
"""

import argparse
import math

import torch
from torch import nn

from benchmarks.compiled.programs.timing import report

BATCH, VOCABULARY = 4, 10_000
SIZES = {  # layers, heads, width, inner width
    "small": (12, 12, 768, 3072),
    "medium": (24, 16, 1024, 4096),
    "2.7B": (32, 32, 2560, 10_240),
}


class Linear(nn.Module):
    """A product with a weight, without bias."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs).normal_(std=0.02))

    def forward(self, x):
        """Return the product."""
        return torch.einsum("...i,oi->...o", x, self.weight)


class Norm(nn.Module):
    """Division by the root of the mean square."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        """Return the scaled `x`."""
        x = x.to(torch.float32)
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Rotation(nn.Module):
    """Rotates pairs of neighbours by angles that depend on the position."""

    def __init__(self, seq, size):
        super().__init__()
        rates = 10_000.0 ** -(torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(seq), rates)
        self.register_buffer("table", torch.stack((angles.cos(), angles.sin())), persistent=False)

    def forward(self, x, places):
        """Return `x` of shape (..., seq, size), rotated."""
        first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = self.table[:, places, :].unbind(0)
        pairs = cos * first - sin * second, sin * first + cos * second
        return torch.stack(pairs, -1).flatten(-2).contiguous()


def softmax(x):
    """Return shares of the last dimension, in single operations."""
    exponentials = torch.exp(x - torch.max(x, dim=-1, keepdim=True)[0])
    return exponentials / torch.sum(exponentials, dim=-1, keepdim=True)


class Attention(nn.Module):
    """Causal attention of single operations, with a mask that each call makes anew."""

    def __init__(self, width, heads, rotation):
        super().__init__()
        self.q, self.k, self.v, self.out = (Linear(width, width) for _ in range(4))
        self.heads, self.rotation = heads, rotation

    def forward(self, x):
        """Mix each token with those before it."""
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        places = torch.arange(x.shape[1], device=x.device)
        q, k = self.rotation(q, places), self.rotation(k, places)
        seen = places.view(1, 1, -1, 1) >= places.view(1, 1, 1, -1)
        scores = torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(k.shape[-1])
        shares = softmax(torch.where(seen, scores, float("-inf")))
        y = torch.einsum("...qk,...kd->...qd", shares, v)
        return self.out(y.transpose(1, 2).flatten(2).contiguous())


class FeedForward(nn.Module):
    """Two products that widen, one of which gates the other, and one that narrows."""

    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up, self.down = (
            Linear(width, inner),
            Linear(width, inner),
            Linear(inner, width),
        )

    def forward(self, x):
        """Widen and narrow."""
        gate = self.gate(x)
        return self.down(gate * torch.sigmoid(gate) * self.up(x))


class Block(nn.Module):
    """Attention and feed-forward part, each behind a norm."""

    def __init__(self, width, heads, inner, rotation):
        super().__init__()
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.attention = Attention(width, heads, rotation)
        self.feed_forward = FeedForward(width, inner)

    def forward(self, x):
        """Attend to earlier tokens, then widen and narrow."""
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class LanguageModel(nn.Module):
    """Tokens to logits."""

    def __init__(self, size, seq):
        super().__init__()
        layers, heads, width, inner = SIZES[size]
        rotation = Rotation(seq, width // heads)
        self.tokens = nn.Parameter(torch.empty(VOCABULARY, width).normal_())
        self.blocks = nn.ModuleList(Block(width, heads, inner, rotation) for _ in range(layers))
        self.norm, self.head = Norm(width), Linear(width, VOCABULARY)

    def forward(self, tokens):
        """Return the logits of each next token."""
        x = self.tokens[tokens, :]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(logits, targets):
    """Return the mean loss, in single operations."""
    logits = logits - torch.max(logits, dim=-1, keepdim=True)[0]
    logs = logits - torch.log(torch.sum(torch.exp(logits), dim=-1, keepdim=True))
    return torch.mean(torch.gather(-logs, -1, targets.unsqueeze(-1)))


def main():
    """Time forward and backward pass, or the forward pass alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--forward", action="store_true", help="no gradients")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    with torch.device("cuda"):
        model = LanguageModel(args.size, args.seq)
    model = torch.compile(model) if args.compile else model
    tokens, targets = torch.randint(0, VOCABULARY, (2, BATCH, args.seq), device="cuda").unbind(0)

    def backward():
        model.zero_grad()
        loss_of(model(tokens), targets).backward()

    @torch.no_grad()
    def forward():
        loss_of(model(tokens), targets).item()

    report(forward if args.forward else backward)


if __name__ == "__main__":
    main()
