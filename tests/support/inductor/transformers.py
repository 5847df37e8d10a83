"""Transformers, written as public code writes them, for `programs`.

Where autocast of the CPU leaves in 16 bits what that of a GPU takes to 32, as a softmax, a call
says it.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

BATCH, LENGTH, WIDTH, HEADS, VOCABULARY = 8, 1024, 768, 12, 16_384
HEAD = WIDTH // HEADS


class Attention(nn.Module):
    """Causal self-attention by PyTorch's fused function."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        split = self.qkv(x).split(WIDTH, 2)
        q, k, v = (z.view(b, t, HEADS, HEAD).transpose(1, 2) for z in split)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))


class UnfusedAttention(Attention):
    """Causal self-attention by products, a mask, a softmax and dropout, as nanoGPT's older one."""

    def __init__(self, dropout=0.1):
        super().__init__()
        self.dropout = dropout
        mask = torch.tril(torch.ones(LENGTH, LENGTH)).view(1, 1, LENGTH, LENGTH)
        self.register_buffer("mask", mask)

    def forward(self, x):
        b, t, c = x.shape
        split = self.qkv(x).split(WIDTH, 2)
        q, k, v = (z.view(b, t, HEADS, HEAD).transpose(1, 2) for z in split)
        weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(HEAD))
        weights = weights.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        weights = F.dropout(F.softmax(weights, dim=-1, dtype=torch.float), self.dropout)
        y = (weights @ v).transpose(1, 2).contiguous().view(b, t, c)
        return F.dropout(self.out(y), self.dropout)


class Block(nn.Module):
    """A block of GPT-2: layer norms in front, an MLP with GELU."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """GPT-2 with a tied head; gives logits and the loss, as nanoGPT's does."""

    def __init__(self, layers=2):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, tokens, targets):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        flat = logits.view(-1, VOCABULARY).float()
        return logits, F.cross_entropy(flat, targets.view(-1), ignore_index=-1)


class RMSNorm(nn.Module):
    """The norm as Llama's code has it."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
        return y.type_as(x) * self.weight


def rotate_half(x, cos, sin):
    """Turn pairs of x that are half a head apart, as transformers' Llama does."""
    x1, x2 = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-x2, x1), dim=-1) * sin


def rotate_pairs(x, cos, sin):
    """Turn neighbouring pairs of x in float32, as torchtune does."""
    y = x.float().unflatten(-1, (-1, 2))
    cos, sin = cos[..., : HEAD // 2], sin[..., : HEAD // 2]
    first = y[..., 0] * cos - y[..., 1] * sin
    second = y[..., 1] * cos + y[..., 0] * sin
    return torch.stack((first, second), dim=-1).flatten(-2).type_as(x)


def rotate_complex(x, cos, sin):
    """Turn neighbouring pairs of x by a product of complex numbers, as Llama's own code does."""
    angles = torch.complex(cos[..., : HEAD // 2], sin[..., : HEAD // 2])
    y = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(y * angles).flatten(-2).type_as(x)


class LlamaBlock(nn.Module):
    """A block of Llama: RMSNorm, rotary positions, grouped queries, SwiGLU."""

    def __init__(self, rotate=rotate_half, groups=2):
        super().__init__()
        self.rotate, self.groups = rotate, groups
        self.norm1, self.norm2 = RMSNorm(), RMSNorm()
        self.q, self.out = self.linear(WIDTH, WIDTH), self.linear(WIDTH, WIDTH)
        self.k, self.v = (self.linear(WIDTH, WIDTH // groups) for _ in range(2))
        self.gate, self.up = (self.linear(WIDTH, 3 * WIDTH) for _ in range(2))
        self.down = self.linear(3 * WIDTH, WIDTH)

    @staticmethod
    def linear(inputs, outputs):
        """Return a layer without a bias."""
        return nn.Linear(inputs, outputs, bias=False)

    def attend(self, x, cos, sin):
        """Return the result of the attention."""
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, -1, HEAD).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        k, v = (z.repeat_interleave(self.groups, dim=1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x, cos, sin):
        x = x + self.attend(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class EverySecondProduct:
    """A policy of selective checkpointing: keeps the results of every second product."""

    def __init__(self):
        self.seen = {False: 0, True: 0}

    def __call__(self, context, operation, *args, **kwargs):
        kept = False
        if operation == torch.ops.aten.mm.default:
            self.seen[context.is_recompute] += 1
            kept = self.seen[context.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def contexts():
    """Return the two contexts of a checkpoint that keeps every second product."""
    return create_selective_checkpoint_contexts(EverySecondProduct())


class CheckpointedMLP(nn.Module):
    """Llama's feed-forward part with its norm, checkpointed: some products are kept."""

    def __init__(self):
        super().__init__()
        self.norm = RMSNorm()
        self.gate, self.up = (LlamaBlock.linear(WIDTH, 3 * WIDTH) for _ in range(2))
        self.down = LlamaBlock.linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False, context_fn=contexts)

    def inner(self, x):
        """Return what is not checkpointed yet."""
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotary_tables(device):
    """Return the cosines and sines of `rotate_half`, of shape (LENGTH, HEAD)."""
    speeds = 1.0 / 10_000 ** (torch.arange(0, HEAD, 2, device=device) / HEAD)
    angles = torch.outer(torch.arange(LENGTH, device=device).float(), speeds)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


class PaddedEncoder(nn.Module):
    """A BERT-like encoder: norms behind, a padding mask that is added to the scores."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, is_token):
        b, t, c = x.shape
        mask = (1.0 - is_token[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        q, k, v = (f(x).view(b, t, HEADS, HEAD).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(HEAD) + mask
        weights = F.softmax(weights, dim=-1, dtype=torch.float)
        y = torch.matmul(weights, v).permute(0, 2, 1, 3).contiguous().view(b, t, c)
        x = self.norm1(x + F.dropout(self.out(y), 0.1))
        y = self.down(F.gelu(self.up(x)))
        return self.norm2(x + F.dropout(y, 0.1))


class ViT(nn.Module):
    """A vision transformer: convolution of patches, a class token, one block, a head."""

    def __init__(self, patch=8, image=64, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(1, 1 + (image // patch) ** 2, WIDTH))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(WIDTH, eps=1e-6) for _ in range(3))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, classes)

    def attend(self, x):
        """Return the result of the attention, as timm computes it."""
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, n, c))

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1) + self.positions
        x = x + self.attend(self.norm1(x))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return self.head(self.norm3(x)[:, 0])


class MixtureOfExperts(nn.Module):
    """Two of eight experts a token, every expert run on every token and weighted."""

    def __init__(self, experts=8, width=WIDTH):
        super().__init__()
        self.router = nn.Linear(WIDTH, experts, bias=False)
        self.up = nn.Parameter(torch.ones(experts, WIDTH, width))
        self.down = nn.Parameter(torch.ones(experts, width, WIDTH))

    def weights(self, x):
        """Return the weights of the best experts and their numbers: (tokens, 2) each."""
        weights, chosen = torch.topk(F.softmax(self.router(x), dim=-1, dtype=torch.float), 2)
        return (weights / weights.sum(dim=-1, keepdim=True)).type_as(x), chosen

    def forward(self, x):
        weights, chosen = self.weights(x)
        experts = torch.arange(self.up.shape[0], device=x.device)
        one_hot = (chosen[..., None] == experts).type_as(x)  # (tokens, 2, experts)
        gates = (weights[..., None] * one_hot).sum(dim=1, dtype=torch.float)  # (tokens, experts)
        hidden = F.silu(torch.einsum("td,edf->etf", x, self.up))
        outputs = torch.einsum("etf,efd->etd", hidden, self.down)
        return (outputs * gates.t()[..., None]).sum(dim=0, dtype=torch.float)


class ScatteredExperts(MixtureOfExperts):
    """Two of eight experts a token; tokens are gathered by expert and added back.

    As in implementations with equal shares, each expert takes the same number of tokens.
    """

    def forward(self, x):
        weights, chosen = self.weights(x)
        order = torch.argsort(chosen.flatten(), stable=True)
        tokens = order // chosen.shape[1]
        gathered = x[tokens].view(self.up.shape[0], -1, x.shape[1])
        hidden = F.silu(torch.bmm(gathered, self.up))
        outputs = torch.bmm(hidden, self.down).flatten(0, 1)
        outputs = outputs * weights.flatten()[order][:, None]
        return torch.zeros_like(x).index_add(0, tokens, outputs)
