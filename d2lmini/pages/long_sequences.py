"""The chapter on long sequences: split attention against whole attention, and how long it takes."""

import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional

import simgpu as sim
from d2lmini.pages.tensor_parallel import difference
from d2lmini.timing import Timer
from simgpu.timeline import Timeline


def compare_attention(way, deal, nprocs=4, tokens=64, gradients=False):
    """Compare causal attention of ranks that share a sequence with that of one process.

    Parameters
    ----------
    way : callable
        ``way(q, k, v)``, called on every rank with its tokens; returns their output.
    deal : callable
        ``deal(places, rank, ranks)``, returning which places of the sequence a rank has.
    nprocs, tokens : int
    gradients : bool
        Whether to compare the gradients of queries, keys and values, too.

    Returns
    -------
    float
        The largest difference on any rank, relative to the largest right value of its tensor.
    """
    numbers = torch.Generator().manual_seed(0)
    whole = torch.randn(4, 1, 4, tokens, 16, generator=numbers, dtype=torch.float64)
    right = _outputs(_whole_attention, whole, gradients)

    def on_rank(rank):
        device = _join()
        own = deal(torch.arange(tokens), rank, nprocs)
        got = _outputs(way, whole[:, :, :, own].to(device), gradients)
        pairs = zip(right, got, strict=True)
        return max(difference(a[:, :, own], b) for a, b in pairs)

    return max(sim.spawn(on_rank, nprocs=nprocs))


def _join():
    """Join the other ranks; return this rank's GPU."""
    dist.init_process_group()
    return torch.accelerator.current_accelerator()


def _whole_attention(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _outputs(way, numbers, gradients):
    """Return the output of queries, keys and values, and their gradients if these are wanted."""
    *inputs, grad = numbers
    inputs = [x.detach().clone().requires_grad_(gradients) for x in inputs]
    out = way(*inputs)
    if gradients:
        out.backward(grad)
    return [out, *(x.grad for x in inputs)] if gradients else [out]


def attention_seconds(way, n, nprocs=8, backward=False, **machine):
    """Return the simulated seconds of causal attention on A100s that share a sequence.

    Parameters
    ----------
    way : callable
        ``way(q, k, v)``, called on every rank with its tokens; returns their output.
    n : int
        Tokens of each rank, with 32 heads of 128 numbers in bfloat16.
    nprocs : int
    backward : bool
        Whether the backward pass counts, too.
    **machine
        As in `simgpu.spawn`; without it, all GPUs are in one node with NVLink.
    """

    def on_rank(rank):
        device = _join()
        timer = Timer(device)
        with device:
            x = torch.zeros(4, 1, 32, n, 128, dtype=torch.bfloat16)
        q, k, v = (part.requires_grad_(backward) for part in x[:3])
        timer.start()
        out = way(q, k, v)
        if backward:
            out.backward(x[3])
        timer.stop()
        return timer.times[-1]

    a100s = {"gpu": "a100", "link": "nvlink3", "numerics": False}
    return max(sim.spawn(on_rank, nprocs=nprocs, **a100s, **machine))


def block_and_message(way, n, nprocs=8, **machine):
    """Return the simulated seconds of one step of a ring: of its attention, and of its message.

    The arguments are those of `attention_seconds`. The step is the second one, whose keys and
    values come from another rank.
    """
    attention_seconds(way, n, nprocs, **machine)
    lanes = Timeline(sim.trace()).lanes()
    block = [span for span in lanes["rank 0 sim:0", "compute"] if "attention" in span.name][1]
    message = lanes["rank 0 sim:0", "comm"][0]
    return block.end - block.start, message.end - message.start


def rotate(x, positions):
    """Return queries or keys, ``(..., tokens, size)``, rotated by angles that grow with positions.

    This is a rotary embedding.
    """
    half = x.shape[-1] // 2
    speeds = 100.0 ** -(torch.arange(half, device=x.device) / half)
    angles = positions[:, None] * speeds
    a, b = x.chunk(2, -1)
    sin, cos = angles.sin(), angles.cos()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def make_language(device, length=256, padding=80):
    """Return the weights of a small language model, tokens, and labels, on a device.

    The labels of the last tokens are -100, which marks padding.
    """
    numbers = torch.Generator().manual_seed(5)
    shapes = (50, 32), (32, 96), (32, 50)
    weights = [torch.randn(shape, generator=numbers) / 4 for shape in shapes]
    text = torch.randint(50, (length + 1,), generator=numbers)
    labels = text[1:].clone()
    labels[length - padding :] = -100
    tokens = text[:-1].clone()
    return [w.to(device).requires_grad_() for w in weights], tokens.to(device), labels.to(device)


def write_torchtitan_gpu():
    """Write a file of the H100 on which torchtitan was measured; return the file's path.

    It has 96 GB of memory at 2.4 TB/s (torchtitan, benchmarks/llama3_h100_202412_torchtitan.md).
    """
    h100 = sim.GPUS["h100"]
    gpu = replace(h100, name="h100-96", memory=96 * 2**30, memory_bandwidth=2.4e12)
    path = Path(tempfile.mkdtemp()) / "h100-96.json"
    record = {"format": "simgpu GPU 1", "gpu": asdict(gpu), "link": "nvlink4"}
    path.write_text(json.dumps(record), encoding="utf-8")
    return str(path)
