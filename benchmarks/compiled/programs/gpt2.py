"""GPT-2 with 124 million parameters, as nanoGPT's ``bench.py`` and Raschka's book train it.

The output layer has weights of its own in both, and products have biases. nanoGPT's, of 30 December
2022, has 32-bit weights and 16-bit products (autocast), attention of single operations, and updates
each weight by itself, as PyTorch did then. Raschka's (``--book``) has 16-bit weights, fused
attention, dropout and a fused optimizer.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.compiled.programs.timing import report

BATCH, SEQ, WIDTH, HEADS, LAYERS = 8, 1024, 768, 12, 12


class Attention(nn.Module):
    """Causal attention with all heads in one product; fused, or its scores one after another."""

    def __init__(self, fused, dropout):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=not fused), nn.Linear(WIDTH, WIDTH)
        self.fused, self.dropout = fused, dropout
        if not fused:
            self.register_buffer("mask", torch.tril(torch.ones(SEQ, SEQ)).view(1, 1, SEQ, SEQ))

    def forward(self, x):
        """Mix each token with those before it."""
        q, k, v = (
            part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).split(WIDTH, 2)
        )
        y = self._fused(q, k, v) if self.fused else self._scores(q, k) @ v
        return self.out(y.transpose(1, 2).contiguous().flatten(2))

    def _fused(self, q, k, v):
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)

    def _scores(self, q, k):
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.shape[-1]))
        return F.softmax(scores.masked_fill(self.mask == 0, float("-inf")), dim=-1)


class Block(nn.Module):
    """Attention and feed-forward part, each behind a norm."""

    def __init__(self, fused, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(fused, dropout)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        """Attend to earlier tokens, then widen and narrow."""
        x = x + self.drop(self.attention(self.norm1(x)))
        wide = F.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + self.drop(self.down(wide))


class GPT2(nn.Module):
    """Tokens to logits."""

    def __init__(self, vocabulary, fused=False, dropout=0.0):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(SEQ, WIDTH)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(fused, dropout) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)

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


def bench(compiled, vocabulary):
    """Return nanoGPT's step."""
    torch.backends.cuda.matmul.allow_tf32 = True
    with torch.device("cuda"):
        model = WithLoss(GPT2(vocabulary))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    model = torch.compile(model) if compiled else model
    tokens, targets = batch(vocabulary), batch(vocabulary)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def book(compiled, vocabulary):
    """Return the step of Raschka's book; the loss is computed outside the model."""
    torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = GPT2(vocabulary, fused=True, dropout=0.1).to(torch.bfloat16)
    model = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, fused=True)
    tokens, targets = batch(vocabulary), batch(vocabulary)

    def step():
        optimizer.zero_grad()
        loss_of(model(tokens), targets).backward()
        optimizer.step()

    return step


def batch(vocabulary):
    """Return random tokens."""
    return torch.randint(0, vocabulary, (BATCH, SEQ), device="cuda")


def main():
    """Time a step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--book", action="store_true", help="as in Raschka's book")
    parser.add_argument("--vocabulary", type=int, default=50_257)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    report((book if args.book else bench)(args.compile, args.vocabulary))


if __name__ == "__main__":
    main()
