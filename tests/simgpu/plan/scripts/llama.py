"""A Llama: tokens to logits.

Queries, keys and values come out of one product, and so do both halves of SwiGLU.
"""

import torch
import torch.nn.functional as F
from torch import nn


def rotations(head, seq, base=500_000.0):
    """Return a complex number for each position and pair of columns of a head."""
    rates = base ** -(torch.arange(0, head, 2) / head)
    angles = torch.outer(torch.arange(seq), rates)
    return torch.polar(torch.ones_like(angles), angles)


def rotate(x, rotations):
    """Turn the pairs of columns of x, (batch, sequence, heads, head)."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotations[:, None]).flatten(3).type_as(x)


class Attention(nn.Module):
    """Causal self-attention, whose keys and values have fewer heads."""

    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.head, self.counts = hidden // heads, [heads, kv_heads, kv_heads]
        self.qkv = nn.Linear(hidden, sum(self.counts) * self.head, bias=False)
        self.out = nn.Linear(heads * self.head, hidden, bias=False)

    def forward(self, x, rotations):
        """Attend to earlier tokens; x is (batch, sequence, hidden)."""
        q, k, v = self.qkv(x).view(*x.shape[:2], -1, self.head).split(self.counts, 2)
        q, k = rotate(q, rotations), rotate(k, rotations)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(*x.shape[:2], -1))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, hidden, inner):
        super().__init__()
        self.up = nn.Linear(hidden, 2 * inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        """Widen, multiply both halves, narrow."""
        gate, y = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * y)


class Block(nn.Module):
    """Attention and feed-forward part, each behind an RMS norm."""

    def __init__(self, hidden, heads, kv_heads, inner):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)
        self.attention = Attention(hidden, heads, kv_heads)
        self.feed_forward = FeedForward(hidden, inner)

    def forward(self, x, rotations):
        """Add what both parts make of x."""
        x = x + self.attention(self.norm1(x), rotations)
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    """Embedding, blocks, norm, output layer; a stage of a pipeline has some of them."""

    def __init__(self, hidden=2048, heads=16, kv_heads=8, inner=7168, layers=8, seq=2048,
                 vocabulary=32_000, first=True, last=True):  # fmt: skip
        super().__init__()
        self.head, self.seq = hidden // heads, seq
        self.tokens = nn.Embedding(vocabulary, hidden) if first else None
        self.blocks = nn.ModuleList(Block(hidden, heads, kv_heads, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden, eps=1e-5) if last else None
        self.output = nn.Linear(hidden, vocabulary, bias=False) if last else None
        self.register_buffer("rotations", rotations(self.head, seq), persistent=False)

    def init_buffers(self, device):
        """Make the buffers of a model that was made on the device meta."""
        self.rotations = rotations(self.head, self.seq).to(device)

    def forward(self, x):
        """Return the logits, or what the next stage gets."""
        x = self.tokens(x) if self.tokens is not None else x
        for block in self.blocks:
            x = block(x, self.rotations)
        return self.output(self.norm(x)) if self.output is not None else x


def loss_of(logits, targets):
    """Return the loss of all tokens."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(0, 1))
