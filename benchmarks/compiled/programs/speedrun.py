"""modded-nanogpt of 29 October 2024 with Adam: a GPT of 124 million parameters on eight GPUs.

Queries and keys are normed and rotated, the activation is a squared ReLU, norms have no weights,
and the table of tokens is the output layer, too. Weights have 32 bits, products 16 (autocast).
"""

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.compiled.programs.gpt2 import Sizes, WithLoss, random_batch
from benchmarks.compiled.programs.starting import is_compiled, one_of_many
from benchmarks.compiled.programs.timing import report

SIZES, BATCH = Sizes(heads=6, vocabulary=50_304), 64


class Rotation(nn.Module):
    """Rotates pairs of a head's two halves by angles that depend on the position."""

    def __init__(self, size):
        super().__init__()
        rates = 10_000.0 ** -(torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(SIZES.seq), rates)[None, :, None]
        self.register_buffer("cos", angles.cos().bfloat16())
        self.register_buffer("sin", angles.sin().bfloat16())

    def forward(self, x):
        """Return `x` of shape (batch, seq, heads, size), rotated."""
        a, b = x.chunk(2, 3)
        rotated = [a * self.cos + b * self.sin, b * self.cos - a * self.sin]
        return torch.cat(rotated, 3).type_as(x)


class Block(nn.Module):
    """Attention and feed-forward part, each behind a norm."""

    def __init__(self):
        super().__init__()
        width = SIZES.width
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.rotation = Rotation(width // SIZES.heads)

    def forward(self, x):
        """Attend to earlier tokens, then widen and narrow."""
        x = x + self._attention(norm(x))
        return x + self.down(F.relu(self.up(norm(x))).square())

    def _attention(self, x):
        q, k, v = (part(x).unflatten(2, (SIZES.heads, -1)) for part in (self.q, self.k, self.v))
        q, k = self.rotation(norm(q)), self.rotation(norm(k))
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        return self.out(y.transpose(1, 2).contiguous().flatten(2))


def norm(x):
    """Return `x` divided by the root of its mean square."""
    return F.rms_norm(x, (x.shape[-1],))


class Speedrun(nn.Module):
    """Tokens to logits."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(SIZES.vocabulary, SIZES.width)
        self.blocks = nn.ModuleList(Block() for _ in range(SIZES.layers))
        self.head = nn.Linear(SIZES.width, SIZES.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        """Return the logits of each next token."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(norm(x)).float()


def make_step(device, compiled):
    """Return a function that does a step of training."""
    with device:
        model = WithLoss(Speedrun())
    model = torch.compile(model) if compiled else model
    model = nn.parallel.DistributedDataParallel(model, [device])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3.6e-3, betas=(0.9, 0.95), fused=True)
    tokens, targets = random_batch(BATCH, SIZES), random_batch(BATCH, SIZES)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)

    return step


def main():
    """Time a step."""
    with one_of_many() as device:
        report(make_step(device, is_compiled()))


if __name__ == "__main__":
    main()
