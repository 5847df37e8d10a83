"""The memory of a training step on one simulated GPU, from block to block."""

from dataclasses import dataclass
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
from torch.nn import functional

import simgpu as sim
from d2lmini.language_model import LanguageModel


def count_parameters(**sizes):
    """Return how many parameters a `LanguageModel` of these sizes has."""
    with torch.device("meta"):
        return sum(p.numel() for p in LanguageModel(**sizes).parameters())


def train_step(model, optimizer, X, note=lambda: None):
    """Make one step: a loss, its gradients, and an update.

    Parameters
    ----------
    model : nn.Module
        Gives logits for each token.
    optimizer : torch.optim.Optimizer
    X : Tensor
        Tokens, (sequences, tokens); they are the targets as well.
    note : callable
        Called before and after the backward pass.
    """
    loss = functional.cross_entropy(model(X).flatten(0, 1).float(), X.flatten())
    note()
    loss.backward()
    note()
    optimizer.step()
    optimizer.zero_grad()


@dataclass
class StepMemory:
    """What is allocated in the course of a training step.

    Attributes
    ----------
    times : list of float
        Simulated seconds from the beginning of the step.
    most : list of int
        The most bytes since the time before.
    kept : list of int
        Bytes at these times.
    blocks : int
        The times from 1 to this one are those at which a block is done in the forward pass.
    """

    times: list
    most: list
    kept: list
    blocks: int

    @property
    def peak(self):
        """Return the most bytes."""
        return max(self.most)

    @property
    def seconds(self):
        """Return how long the step takes."""
        return self.times[-1]

    @property
    def at_peak(self):
        """Return which share of the step is over when most is allocated."""
        return self.times[self.most.index(self.peak)] / self.seconds

    @property
    def kept_by_blocks(self):
        """Return the bytes that the forward pass of each block leaves, all but the first's."""
        done = self.kept[1 : self.blocks + 1]
        return [after - before for before, after in pairwise(done)]


def step_memory(make, batch=8, tokens=512, fused=True):
    """Record the memory of a simulated A100 during a step with AdamW, not the first one.

    Parameters
    ----------
    make : callable
        Returns a model with a list `blocks`.
    batch, tokens : int
        Sequences, and the tokens of each.
    fused : bool or None
        As AdamW takes it; with None, its default, it needs more memory while it runs.

    Returns
    -------
    StepMemory
        Noted when a block, the loss, a gradient or the update is done.
    """
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    with torch.device(device):
        model, X = make(), torch.zeros(batch, tokens, dtype=torch.long)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    train_step(model, optimizer, X)  # the first step makes AdamW's moments
    sim.reset_peak_memory_stats(device)
    noted = []

    def note(*_):
        sim.synchronize()
        sizes = sim.max_memory_allocated(device), sim.memory_allocated(device)
        noted.append((sim.now(), *sizes))
        sim.reset_peak_memory_stats(device)

    note()
    for block in model.blocks:
        block.register_forward_hook(note)
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(note)
    optimizer.register_step_post_hook(note)
    train_step(model, optimizer, X, note)
    note()
    times, most, kept = map(list, zip(*noted, strict=True))
    return StepMemory([t - times[0] for t in times], most, kept, len(model.blocks))


def draw_memory(steps, constant):
    """Plot what is allocated in the course of steps.

    Parameters
    ----------
    steps : dict of str to StepMemory
        By what the legend says.
    constant : int
        Bytes of weights and moments, which are there all the time.
    """
    _, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for (name, step), style in zip(steps.items(), ("-", "--"), strict=False):
        sizes = [size / 1e9 for size in step.most]
        ax.plot([1e3 * t for t in step.times], sizes, style, label=name)
    ax.axhline(constant / 1e9, color="grey", ls=":")
    ax.text(0, constant / 1e9 - 0.3, "weights and moments", va="top")
    ax.set(xlabel="ms of a step (simulated)", ylabel="GB allocated")
    ax.set_ylim(0)
    ax.legend()
    plt.show()
