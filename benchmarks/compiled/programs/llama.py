"""Llama models, with the norm, the rotation of positions and the attention that a trainer gives.

`torchtune`'s, `torchtitan`'s and IBM's rotations compute the same, in other operations.
"""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shape:
    """What a Llama model is built from.

    Attributes
    ----------
    width, inner, layers, heads, groups, vocabulary : int
        `groups` are the heads of keys and values.
    tied : bool
        Whether the table of tokens is the output layer, too.
    """

    width: int
    inner: int
    layers: int
    heads: int
    groups: int
    vocabulary: int
    tied: bool = False


LLAMA2_7B = Shape(4096, 11_008, 32, 32, 32, 32_000)
LLAMA3_3B = Shape(3072, 8192, 28, 24, 8, 128_256, tied=True)
LLAMA3_8B = Shape(4096, 14_336, 32, 32, 8, 128_256)


def angles(seq, size):
    """Return the angles of each position, (seq, size / 2)."""
    rates = 500_000.0 ** -(torch.arange(0, size, 2) / size)
    return torch.outer(torch.arange(seq), rates)


class Pairs:
    """torchtune's rotation: neighbours are a pair, rotated by cosine and sine in 32 bits."""

    @staticmethod
    def table(seq, size):
        """Return the cosines and sines of each position."""
        found = angles(seq, size)
        return torch.stack((found.cos(), found.sin()), -1)

    @staticmethod
    def rotate(x, table):
        """Return `x` of shape (batch, seq, heads, size), rotated."""
        pairs = x.float().unflatten(-1, (-1, 2))
        cos, sin = table.view(-1, x.shape[1], 1, pairs.shape[3], 2).unbind(-1)
        rotated = torch.stack(
            [
                pairs[..., 0] * cos - pairs[..., 1] * sin,
                pairs[..., 1] * cos + pairs[..., 0] * sin,
            ],
            -1,
        )
        return rotated.flatten(3).type_as(x)


class Complex:
    """torchtitan's rotation: a pair is a complex number, and rotated by a product with another."""

    @staticmethod
    def table(seq, size):
        """Return a complex number of length 1 for each position and pair."""
        found = angles(seq, size)
        return torch.polar(torch.ones_like(found), found)

    @staticmethod
    def rotate(x, table):
        """Return `x` of shape (batch, seq, heads, size), rotated."""
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * table[:, None]).flatten(3).type_as(x)


class Matrices:
    """IBM's rotation: each pair times a matrix of four, whose products are then added."""

    @staticmethod
    def table(seq, size):
        """Return a matrix for each position and pair."""
        found = angles(seq, size)
        cos, sin = found.cos(), found.sin()
        return torch.stack([cos, -sin, sin, cos], -1).unflatten(-1, (2, 2))

    @staticmethod
    def rotate(x, table):
        """Return `x` of shape (batch, seq, heads, size), rotated."""
        pairs = x.float().unflatten(-1, (-1, 2))
        return table[:, None].mul(pairs.unsqueeze(-2)).sum(-1).flatten(3).type_as(x)


class Norm(nn.Module):
    """Division by the root of the mean square, in 32 bits."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        """Return the scaled `x`."""
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return normed.type_as(x) * self.weight


class Block(nn.Module):
    """Attention and feed-forward part, each behind a norm.

    Parameters
    ----------
    shape : Shape
    rotate : callable
        Takes queries or keys, and the table.
    attend : callable
        Takes queries, keys and values of shape (batch, heads, seq, size).
    """

    def __init__(self, shape, rotate, attend):
        super().__init__()
        self.heads, self.groups = shape.heads, shape.groups
        self.rotate, self.attend = rotate, attend
        width, inner = shape.width, shape.inner
        narrow = width // shape.heads * shape.groups
        linear = partial(nn.Linear, bias=False)
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.q, self.k, self.v = linear(width, width), linear(width, narrow), linear(width, narrow)
        self.out = linear(width, width)
        self.gate, self.up, self.down = (
            linear(width, inner),
            linear(width, inner),
            linear(inner, width),
        )

    def forward(self, x, table):
        """Attend to earlier tokens, then widen and narrow."""
        x = x + self._attention(self.norm1(x), table)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def _attention(self, x, table):
        q = self.q(x).unflatten(-1, (self.heads, -1))
        k, v = (part(x).unflatten(-1, (self.groups, -1)) for part in (self.k, self.v))
        q, k = self.rotate(q, table).transpose(1, 2), self.rotate(k, table).transpose(1, 2)
        k, v = self._repeated(k), self._repeated(v.transpose(1, 2))
        y = self.attend(q, k, v)
        return self.out(y.transpose(1, 2).contiguous().flatten(2))

    def _repeated(self, x):
        if self.heads == self.groups:
            return x
        times = self.heads // self.groups
        return x.unsqueeze(2).expand(-1, -1, times, -1, -1).flatten(1, 2)


def causal(q, k, v):
    """Attend to earlier tokens, in the kernel that PyTorch chooses."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Llama(nn.Module):
    """Tokens to logits.

    Parameters
    ----------
    shape : Shape
    seq : int
    rotation : type
        `Pairs`, `Complex` or `Matrices`.
    attend : callable
        As `Block` takes it.
    """

    def __init__(self, shape, seq, rotation, attend=causal):
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(
            Block(shape, rotation.rotate, attend) for _ in range(shape.layers)
        )
        self.norm = Norm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        if shape.tied:
            self.head.weight = self.tokens.weight
        table = rotation.table(seq, shape.width // shape.heads)
        self.register_buffer("table", table, persistent=False)

    def forward(self, tokens):
        """Return the logits of each next token."""
        return self.head(self.hidden(tokens))

    def hidden(self, tokens):
        """Return what the output layer takes."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.table)
        return self.norm(x)
