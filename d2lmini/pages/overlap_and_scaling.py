"""The chapter on overlap and scaling: a summary, the last step's timeline, messages, graphs."""

import shlex
import subprocess
import sys
from functools import partial
from itertools import accumulate

import torch
from torch._dynamo.backends.distributed import DDPOptimizer
from torch.utils.checkpoint import checkpoint

import simgpu as sim
from d2lmini.ddp import launcher_environment
from d2lmini.pages.devices import language_step
from d2lmini.timing import Timer
from simgpu.timeline import Timeline


def run(command):
    """Run ``simgpu run ...`` and return the summary that it prints at the end.

    Parameters
    ----------
    command : str
        As typed into a shell, over several lines if need be.
    """
    name, *arguments = shlex.split(command)
    if name != "simgpu":
        raise ValueError(f"the command begins with {name!r}: only 'simgpu run ...' has a summary")
    how = {"capture_output": True, "text": True, "timeout": 300}
    words = [sys.executable, "-m", name, *arguments]
    done = subprocess.run(words, env=launcher_environment(), **how)
    if done.returncode:
        raise RuntimeError(f"{command!r} has failed:\n{done.stderr}")
    return done.stdout[done.stdout.index("simulated, not measured") :]


def last_seconds(seconds):
    """Return the timeline of the last seconds of the latest run of simulated ranks."""
    return Timeline(sim.trace()).last(seconds)


def length(timeline):
    """Return the seconds from the begin of a timeline to its end."""
    return timeline.end - timeline.start


def messages(timeline):
    """Return the messages of rank 0 as spans; none if it has sent nothing."""
    return timeline.lanes().get(("rank 0 sim:0", "comm"), [])


def bucket_bytes(timeline):
    """Return the bytes of the all-reduces of rank 0, in the order of sending."""
    return [m.bytes for m in messages(timeline) if m.name == "all_reduce"]


def ddp_graphs(network, *inputs):
    """Return the bytes of parameters of the graphs into which PyTorch cuts a network under DDP.

    It is PyTorch's own compiler, up to the point where kernels would be written, on the CPU.

    Parameters
    ----------
    network : torch.nn.Module
    *inputs : torch.Tensor

    Returns
    -------
    list of int
        In the order of the forward pass.
    """
    sizes = []

    def note(graph, values):
        sizes.append(sum(v.nbytes for v in values if isinstance(v, torch.nn.Parameter)))
        return graph.forward  # run it as it is

    first, others = 2**20, 25 * 2**20  # DDP's own limits of a bucket
    torch.compile(network, backend=DDPOptimizer(others, note, first).compile_fn)(*inputs)
    return sizes


def language_seconds(recompute):
    """Time a step of the language model on a simulated A100.

    Parameters
    ----------
    recompute : bool
        Whether the backward pass computes each block's activations again.

    Returns
    -------
    tuple
        The seconds of the step, the number of parameters, and the FLOPs that the GPU has computed.
    """
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    net, step = language_step(device)
    for block in net.blocks if recompute else ():
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    timer = Timer(device)
    for _ in range(2):
        sim.reset()
        timer.start()
        step(net)
        timer.stop()
    flops = sum(span.flops for span in sim.trace())
    return timer.times[-1], sum(p.numel() for p in net.parameters()), flops


def gradients_ready(network, seconds):
    """Return when gradients are ready, if all convolutions take equally long.

    Parameters
    ----------
    network : torch.nn.Module
    seconds : float
        Of a step on one GPU; the first third is the forward pass.

    Returns
    -------
    dict of int to float
        Bytes of gradients -> the second at which they are ready.
    """
    backwards = list(network.parameters())[::-1]
    done = list(accumulate(p.dim() == 4 for p in backwards))
    ready = accumulate(4 * p.numel() for p in backwards)
    pairs = zip(ready, done, strict=True)
    return {sent: seconds * (1 + 2 * count / done[-1]) / 3 for sent, count in pairs}
