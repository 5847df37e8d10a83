"""What `bench_ddp` starts under torchrun: rounds of steps, alone, at weak and at strong scaling.

Rank 0 reports one record per round: the seconds of a step by name. All variants of a round run
in the same processes, one after the other; while rank 0 works alone, the others wait.
"""

import argparse
import sys
import time
from pathlib import Path

import torch

from d2lmini import ddp, synchronize
from d2lmini.resnet import resnet18

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chapters" / "scripts"))
from train_ddp import train_step


def main():
    parser = argparse.ArgumentParser()
    for name in ("--width", "--batch-size", "--steps", "--rounds", "--warm-up"):
        parser.add_argument(name, type=int, required=True)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        torch.set_num_threads(1)  # one core per process
    with ddp.process_group() as group:
        variants = make_variants(group, options)
        for number in range(options.warm_up + options.rounds):
            seconds = {name: measure(step, options.steps) for name, step in variants.items()}
            if number >= options.warm_up:
                group.report("round", **seconds)


def make_variants(group, options):
    """Return the three kinds of steps by name; a batch is `batch_size` images."""
    full, share = options.batch_size, options.batch_size // group.world_size
    alone = make_step(resnet18(width=options.width).to(group.device), full, full, group)
    net = resnet18(width=options.width).to(group.device)
    model = ddp.wrap_model(net, group.device)
    return {
        "alone": alone if group.rank == 0 else lambda: None,
        "weak": make_step(model, full, full * group.world_size, group),
        "strong": make_step(model, share, share * group.world_size, group),
    }


def make_step(model, share, batch_size, group):
    """Return a function that trains on `share` images of a batch of `batch_size`."""
    data = ddp.synthetic_images(share, seed=group.rank)
    X, y = (tensor.to(group.device) for tensor in ddp.pick(data, torch.arange(share)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dtype, _ = ddp.choose_precision(group.device)

    def step():
        train_step(model, optimizer, X, y, batch_size, dtype=dtype)
        synchronize(group.device)

    return step


def measure(step, steps):
    """Return the seconds of a step of the slowest rank."""
    ddp.wait_for_all_ranks()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    ddp.wait_for_all_ranks()
    return (time.perf_counter() - begin) / steps


if __name__ == "__main__":
    main()
