"""nanoGPT: weights of 32 bits, products of 16 (autocast), the loss computed by the model.

``train.py`` of 2023 has fused attention and a fused optimizer, adds up the gradients of
micro-batches and clips them. ``bench.py`` of 30 December 2022 (``--bench``) has attention of single
operations, weights of its own in the output layer, and updates each weight by itself, as PyTorch
did then.
"""

import argparse
from contextlib import nullcontext
from functools import partial

import torch
from torch import nn

from benchmarks.compiled.programs.gpt2 import (
    GPT,
    Attention,
    Fused,
    Single,
    Sizes,
    WithLoss,
    random_batch,
)
from benchmarks.compiled.programs.starting import is_alone, one_of_many
from benchmarks.compiled.programs.timing import report

# The second is `config/train_shakespeare_char.py`: sizes, sequences, dropout, biases.
MODELS = {
    "gpt2": (Sizes(vocabulary=50_304), 12, 0.0, True),
    "char": (Sizes(layers=6, width=384, heads=6, seq=256, vocabulary=65), 64, 0.2, False),
}
BENCH = Sizes(), 8


def bench(compiled):
    """Return the step of ``bench.py``."""
    torch.backends.cuda.matmul.allow_tf32 = True
    sizes, sequences = BENCH
    with torch.device("cuda"):
        model = WithLoss(GPT(sizes, lambda: Attention(sizes, Single(sizes))))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    model = torch.compile(model) if compiled else model
    tokens, targets = random_batch(sequences, sizes), random_batch(sequences, sizes)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def train(args):
    """Return the step of ``train.py``."""
    torch.backends.cuda.matmul.allow_tf32 = True
    sizes, sequences, dropout, bias = MODELS[args.model]
    norm = partial(nn.LayerNorm, bias=bias)
    with torch.device("cuda"):
        model = GPT(sizes, lambda: Attention(sizes, Fused(dropout), bias), norm,
                    dropout=dropout, tied=True)  # fmt: skip
    model = WithLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), fused=True)
    model = torch.compile(model) if args.compile else model
    if args.ddp:
        model = nn.parallel.DistributedDataParallel(model, [torch.cuda.current_device()])
    tokens, targets = random_batch(sequences, sizes), random_batch(sequences, sizes)

    def step():
        for i in range(args.accumulate):
            last = i == args.accumulate - 1
            with model.no_sync() if args.ddp and not last else nullcontext():
                with torch.autocast("cuda", torch.bfloat16):
                    loss = model(tokens, targets) / args.accumulate
                loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def main():
    """Time a step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", action="store_true", help="bench.py of 2022")
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    args.ddp = not is_alone()
    with one_of_many() if args.ddp else nullcontext():
        report(bench(args.compile) if args.bench else train(args))


if __name__ == "__main__":
    main()
