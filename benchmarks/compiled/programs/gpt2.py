"""A GPT, of parts that a trainer gives: GPT-2 with 124 million parameters unless sizes say else."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Sizes(NamedTuple):
    """What a GPT is built from; `vocabulary` is the number of rows of its table of tokens."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    seq: int = 1024
    vocabulary: int = 50_257


class Single(nn.Module):
    """Causal attention, its scores one operation after another."""

    def __init__(self, sizes):
        super().__init__()
        seen = torch.tril(torch.ones(sizes.seq, sizes.seq))
        self.register_buffer("mask", seen.view(1, 1, sizes.seq, sizes.seq))

    def forward(self, q, k, v):
        """Mix each token's value with those before it."""
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.shape[-1]))
        return F.softmax(scores.masked_fill(self.mask == 0, float("-inf")), dim=-1) @ v


class Fused(nn.Module):
    """Causal attention in one kernel."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        """Mix each token's value with those before it."""
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)


class Attention(nn.Module):
    """Attention with all heads' queries, keys and values in one product."""

    def __init__(self, sizes, mix, bias=True):
        super().__init__()
        width = sizes.width
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width)
        self.heads, self.mix = sizes.heads, mix

    def forward(self, x):
        """Mix each token with those before it."""
        parts = self.qkv(x).split(x.shape[2], 2)
        y = self.mix(*(part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts))
        return self.out(y.transpose(1, 2).contiguous().flatten(2))


def tanh_gelu(x):
    """Return GELU by its approximation, in one operation."""
    return F.gelu(x, approximate="tanh")


class Block(nn.Module):
    """Attention and feed-forward part, each behind a norm."""

    def __init__(self, sizes, attention, norm, gelu, dropout):
        super().__init__()
        self.norm1, self.norm2 = norm(sizes.width), norm(sizes.width)
        self.attention, self.gelu = attention, gelu
        self.up = nn.Linear(sizes.width, 4 * sizes.width)
        self.down = nn.Linear(4 * sizes.width, sizes.width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        """Attend to earlier tokens, then widen and narrow."""
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.down(self.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """Tokens to logits.

    Parameters
    ----------
    sizes : Sizes
    attention : callable
        Returns a layer's attention.
    norm, gelu : callable
        The first takes a width, the second a tensor.
    dropout : float
    tied : bool
        Whether the table of tokens is the output layer, too.
    """

    def __init__(
        self, sizes, attention, norm=nn.LayerNorm, gelu=tanh_gelu, dropout=0.0, tied=False
    ):
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.places = nn.Embedding(sizes.seq, sizes.width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(sizes, attention(), norm, gelu, dropout) for _ in range(sizes.layers)
        )
        self.norm = norm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens):
        """Return the logits of each next token."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(self.tokens(tokens) + self.places(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class WithLoss(nn.Module):
    """A model whose call computes the loss, too, so that it is compiled with it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, targets):
        """Return the mean loss."""
        return loss_of(self.model(tokens), targets)


def loss_of(logits, targets):
    """Return the mean loss of predicting each target."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def random_batch(sequences, sizes):
    """Return random tokens."""
    return torch.randint(0, sizes.vocabulary, (sequences, sizes.seq), device="cuda")
