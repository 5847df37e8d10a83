"""Mixture of experts: each token goes to a few of a layer's feed-forward parts.

Every expert gets as many tokens as the others (balanced routing, nothing dropped): what a plan
assumes, and what training with a loss for balance, or with a capacity, comes close to.
"""

import torch
import torch.distributed as dist
from torch import nn

from simgpu.plan.step.products import activate, weight


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


class Experts(nn.Module):
    """The experts of a layer, each rank's part of them.

    Parameters
    ----------
    model : Model
    program : Program
    split : tensor_parallel.Split
        Each expert is split as a dense feed-forward part is.
    group : ProcessGroup, optional
        Among whose ranks the experts are split; None: each rank has all.
    """

    def __init__(self, model, program, split, group=None):
        super().__init__()
        self.model, self.program, self.split, self.group = model, program, split, group
        self.ranks = 1 if group is None else dist.get_world_size(group)
        count, width = model.experts // self.ranks, model.width // split.size
        self.router = weight(model.experts, model.hidden)
        self.up = weight(count, model.hidden, (2 if model.gated else 1) * width)
        self.down = weight(count, width, model.hidden)

    def own(self):
        """Return the parameters that only the ranks with the same experts have in common."""
        return [self.up, self.down]

    def forward(self, x):
        """Send tokens to their experts, and their results back; x is (sequence, batch, hidden)."""
        x = self.split.enter(x)
        shape, tokens = x.shape, x.flatten(0, 1)
        chances = torch.nn.functional.linear(tokens, self.router).float().softmax(-1)
        chances, _ = chances.topk(self.model.active, -1)
        copies = self._even(len(tokens) * self.model.active)
        order = torch.empty(copies, dtype=torch.int64, device=x.device)
        sent = tokens.index_select(0, order)
        if self.ranks > 1:
            sent = _Exchange.apply(sent, self.group)
        y = torch.bmm(sent.view(len(self.up), -1, shape[-1]), self.up)
        y = activate(y, self.model.gated, self.program.compiled)
        y = torch.bmm(y, self.down).flatten(0, 1)
        if self.ranks > 1:
            y = _Exchange.apply(y, self.group)
        y = y.index_select(0, order[: len(tokens) * self.model.active])
        y = y.view(len(tokens), self.model.active, -1) * chances.to(y.dtype).unsqueeze(-1)
        return self.split.leave(y.sum(1).view(shape))

    def _even(self, copies):
        """Round up, so that each expert gets as many."""
        return -(-copies // self.model.experts) * self.model.experts
