"""torchtune's full fine-tuning of Llama 3.2 3B on one GPU, as of November 2024.

Weights, gradients and what AdamW keeps have 16 bits. AdamW is one kernel: the published peaks leave
no room for what its other ways hold for a moment. torchtune packs documents into a sequence and
attends within each by FlexAttention. How long they are is not published; here a sequence is one
document, and attention is the fused kernel. ``--compile`` compiles each layer and the loss.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.compiled.programs.llama import LLAMA3_3B, Llama, Pairs
from benchmarks.compiled.programs.timing import report

BATCH, SEQ, CHUNKS = 2, 4096, 8


def part_loss(logits, targets):
    """Return the sum of the losses of some tokens, in 32 bits."""
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="sum")


def make_loss(model, args):
    """Return a function of what the output layer takes, and targets."""
    if not args.chunked:
        whole = torch.compile(F.cross_entropy) if args.compile else F.cross_entropy

        def loss(hidden, targets):
            return whole(model.head(hidden).float().flatten(0, 1), targets.flatten())

        return loss
    part = torch.compile(part_loss) if args.compile else part_loss

    def chunked(hidden, targets):
        logits = [model.head(piece) for piece in hidden.chunk(CHUNKS, 1)]
        parts = zip(logits, targets.chunk(CHUNKS, 1), strict=True)
        return sum(part(*both) for both in parts) / targets.numel()

    return chunked


class Checkpointed(nn.Module):
    """A layer that is computed again in the backward pass."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, table):
        """Return what the layer does."""
        return checkpoint(self.inner, x, table, use_reentrant=False)


def build(args):
    """Return the model."""
    with torch.device("cuda"):
        model = Llama(LLAMA3_3B, SEQ, Pairs)
    if args.compile:
        for block in model.blocks:
            block.compile()
    if args.checkpoint:
        model.blocks = nn.ModuleList(map(Checkpointed, model.blocks))
    return model


def update_in_backward(model):
    """Update each weight as soon as its gradient is there, and free the gradient."""
    optimizers = {}

    def update(weight):
        optimizers[weight].step()
        optimizers[weight].zero_grad(set_to_none=True)

    for weight in model.parameters():
        optimizers[weight] = torch.optim.AdamW([weight], lr=2e-5, fused=True)
        weight.register_post_accumulate_grad_hook(update)


def make_step(args):
    """Return a function that does a step of training."""
    model = build(args)
    loss_of = make_loss(model, args)
    tokens, targets = torch.randint(0, 128_256, (2, BATCH, SEQ), device="cuda").unbind(0)

    def backward():
        loss_of(model.hidden(tokens), targets).backward()

    if args.in_backward:
        update_in_backward(model)
        return backward
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)

    def step():
        backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def main():
    """Time a step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--chunked", action="store_true", help="output layer and loss in parts")
    parser.add_argument("--checkpoint", action="store_true", help="keep only what layers take")
    parser.add_argument("--in-backward", action="store_true", help="update in the backward pass")
    args = parser.parse_args()
    torch.set_default_dtype(torch.bfloat16)
    report(make_step(args))


if __name__ == "__main__":
    main()
