"""An MPT of 1.3 billion parameters with FSDP2, as a user would write it: no helper of ours.

torchrun --nproc-per-node 8 mpt_fsdp.py --seq 2048 --micro-batch 14 --accumulation 4
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

HIDDEN, HEADS, LAYERS, VOCABULARY = 2048, 16, 24, 50_368


class Block(nn.Module):
    """Attention and feed-forward part, each behind a norm, without biases."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(HIDDEN, bias=False) for _ in range(2))
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

    def forward(self, x):
        """Attend to earlier tokens, then widen and narrow."""
        batch, seq, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, seq, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, seq, HIDDEN))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class MPT(nn.Module):
    """Tokens to the loss; the table of tokens is the output layer, too."""

    def __init__(self, seq):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(seq, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN, bias=False)

    def forward(self, tokens):
        """Return the loss of predicting each next token."""
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def main():
    """Train for three steps on random tokens."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--pure", action="store_true", help="sum gradients in 16 bits")
    args = parser.parse_args()
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    with torch.device("meta"):
        model = MPT(args.seq)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16 if args.pure else torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    for _ in range(3):
        for _ in range(args.accumulation):
            tokens = torch.randint(0, VOCABULARY, (args.micro_batch, args.seq), device=device)
            (model(tokens) / args.accumulation).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
