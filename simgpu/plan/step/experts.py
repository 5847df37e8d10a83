"""Mixture of experts: each token goes to a few of a layer's feed-forward parts.

Every expert gets as many tokens as the others (balanced routing, nothing dropped): what a plan
assumes, and what training with a loss for balance, or with a capacity, comes close to. With
`Program.imbalance` the ranks that run have the rows of the busiest one, which the others wait for.
"""

import math
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from simgpu.plan.step.chains import chains_of
from simgpu.plan.step.products import activate, weight
from simgpu.plan.step.tensor_parallel import Split


class _Exchange(torch.autograd.Function):
    """All-to-all of equal parts, forward and backward."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous(), group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return _Exchange.apply(grad, ctx.group), None


@dataclass(frozen=True)
class Places:
    """Which ranks have which experts: a mesh of its own, over the ranks of the dense one.

    Attributes
    ----------
    group : ProcessGroup, optional
        Among whose ranks the experts are split; None: each rank has all.
    split : tensor_parallel.Split
        Over whose ranks each expert is split.
    replicas : DeviceMesh, optional
        The ranks with the same part of the same experts; None: those of all other weights.
    """

    group: dist.ProcessGroup | None
    split: Split
    replicas: dist.DeviceMesh | None


class _FeedForwards(nn.Module):
    """The experts that a rank has; x is (tokens of one expert after those of another, hidden)."""

    def __init__(self, model, program, count, width):
        super().__init__()
        self.gated, self.chains = model.gated, chains_of(program)
        self.up = weight(count, model.hidden, (2 if model.gated else 1) * width)
        self.down = weight(count, width, model.hidden)

    def forward(self, x, parts):
        """Run each expert on its tokens, those of one rank of `parts` after those of another."""
        count, hidden = len(self.up), x.shape[-1]
        x = x.view(parts, count, -1, hidden).transpose(0, 1)
        y = torch.bmm(x.reshape(count, -1, hidden), self.up)
        y = torch.bmm(activate(y, self.gated, self.chains), self.down)
        return y.view(count, parts, -1, hidden).transpose(0, 1).reshape(-1, hidden)


class Experts(nn.Module):
    """The experts of a layer, each rank's part of them.

    Every rank has tokens of its own: with tensor parallelism, those of its part of the sequence.

    Parameters
    ----------
    model : Model
    program : Program
    places : Places
    """

    def __init__(self, model, program, places):
        super().__init__()
        self.model, self.program, self.places = model, program, places
        self.ranks = 1 if places.group is None else dist.get_world_size(places.group)
        count, width = model.experts // self.ranks, model.width // places.split.size
        self.router = weight(model.experts, model.hidden)
        self.own = _FeedForwards(model, program, count, width)

    def forward(self, x):
        """Send tokens to their experts, and results back; x is (sequence, batch, hidden).

        Return the result, and None: experts have no biases.
        """
        shape, tokens = x.shape, x.flatten(0, 1)
        chances = torch.nn.functional.linear(tokens, self.router).float().softmax(-1)
        chances, _ = chances.topk(self.model.active, -1)
        copies = len(tokens) * self.model.active
        rows = self._even(copies * self._busiest())
        order = torch.empty(rows, dtype=torch.int64, device=x.device)
        y = self._exchange(tokens.index_select(0, order))
        split = self.places.split
        y = split.leave(self.own(split.enter(y), self.ranks * split.size))
        y = self._exchange(y).index_select(0, order[:copies])
        y = y.view(len(tokens), self.model.active, -1) * chances.to(y.dtype).unsqueeze(-1)
        return y.sum(1).view(shape), None

    def _exchange(self, x):
        return x if self.ranks == 1 else _Exchange.apply(x, self.places.group)

    def _busiest(self):
        """Return how many times the mean the busiest rank has: at most every token once."""
        return min(self.program.imbalance, most_imbalance(self.model, self.ranks))

    def _even(self, copies):
        """Round up, so that all experts get equally many."""
        return math.ceil(copies / self.model.experts) * self.model.experts


def most_imbalance(model, ranks):
    """Return the rows of the busiest of some ranks over the mean, if it gets each token it can.

    A token goes to `active` different experts, so a rank with fewer gets it fewer times.
    """
    return min(ranks, model.experts / model.active)
