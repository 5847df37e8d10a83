"""The chapter on meshes: ranks in nodes, texts to train on, and what the axes of a mesh send."""

import logging
import re
import subprocess
import sys
from collections import Counter, namedtuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import simgpu as sim
from d2lmini.ddp import launcher_environment
from d2lmini.timing import Timer

Sizes = namedtuple("Sizes", "words width heads layers length")
RINGS = "all_gather", "reduce_scatter"

logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)


class One:
    """What stands for a process group where there is a single device."""

    def rank(self):
        """Return 0."""
        return 0

    def size(self):
        """Return 1."""
        return 1


def on_ranks(program, *args, nprocs, **how):
    """Run ``program(rank, *args)`` on simulated A100s in nodes of eight; return all results."""
    nodes = {"nodes": nprocs // 8, "network": "hdr"} if nprocs > 8 else {}
    how = {"gpu": "a100", "link": "nvlink3", **nodes, **how}
    return sim.spawn(program, args, nprocs=nprocs, **how)


def one_layer(rank, width=5120, heads=40, tokens=4096):
    """Return the FLOPs a second that one GPU attains in a step of a Transformer layer."""
    device = torch.accelerator.current_accelerator()
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
    layer = layer.to(device, torch.bfloat16)
    x = torch.zeros(8, tokens // 8, width).to(device, torch.bfloat16).requires_grad_()
    timer = Timer(device)
    for _ in range(2):
        timer.start()
        layer(x).sum().backward()
        timer.stop()
    return 6 * 12 * width**2 * tokens / timer.times[-1]


def make_texts(sizes, batch=16):
    """Return words and targets of texts of different lengths; a target of -100 does not count."""
    generator = torch.Generator().manual_seed(1)
    texts = torch.rand(batch, sizes.length + 1, generator=generator)
    number = torch.arange(1, batch + 1)[:, None]  # later texts are longer, with more words
    texts = (texts * number * sizes.words / batch).long()
    padding = torch.arange(sizes.length) >= number * sizes.length // batch
    return texts[:, :-1], texts[:, 1:].masked_fill(padding, -100)


def train_alone(model, x, y, lr, max_norm, steps=2):
    """Return the (loss, norm) of each step of SGD on one device, in plain PyTorch."""
    optimizer, said = torch.optim.SGD(model.parameters(), lr=lr), []
    for _ in range(steps):
        loss = cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step(), optimizer.zero_grad()
        said.append((loss.item(), norm.item()))
    return said


def run_script(script, nprocs, **axes):
    """Run a script on simulated GPUs; return the lines of its steps."""
    command = [sys.executable, "-m", "simgpu", "run", f"--nproc-per-node={nprocs}", script]
    command += [f"--{axis}={size}" for axis, size in axes.items()]
    how = {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, env=launcher_environment(), **how)
    assert done.returncode == 0, done.stderr
    return re.findall(r"^step \d.*$", done.stdout, re.MULTILINE)


def arrange(shape, axes, order):
    """Return the ranks of a mesh of `shape` over `axes`, numbered in another `order` of them.

    The last axis of `order` consists of neighbours.
    """
    at = [axes.index(axis) for axis in order]
    ranks = torch.arange(torch.Size(shape).numel()).reshape([shape[i] for i in at])
    return ranks.permute([order.index(axis) for axis in axes])


def bytes_sent(seconds):
    """Return what rank 0 sent in the last `seconds` of a run, by the axis of the group."""
    spans = [span for span in sim.trace() if span.device == "rank 0 sim:0"]
    start, found = max(span.end for span in spans) - seconds, Counter()
    for span in spans:
        if span.engine == "comm" and span.start >= start:
            share = (span.ranks - 1) / span.ranks if span.collective in RINGS else 1
            found[span.group.removeprefix("mesh_")] += share * span.bytes
    return found
