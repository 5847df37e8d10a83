"""Context parallelism: each rank has a part of every sequence, and all keys and values.

Keys and values are gathered before attention, and their gradients scattered after it, as in the
training of Llama 3 (Grattafiori et al., *The Llama 3 Herd of Models*, 2024, section 3.3.2).
"""

import torch
import torch.distributed as dist


class _Gather(torch.autograd.Function):
    """All-gather along the first dimension; backward a reduce-scatter."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        out = x.new_empty((dist.get_world_size(group) * x.shape[0], *x.shape[1:]))
        dist.all_gather_into_tensor(out, x.contiguous(), group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        size = dist.get_world_size(ctx.group)
        out = grad.new_empty((grad.shape[0] // size, *grad.shape[1:]))
        dist.reduce_scatter_tensor(out, grad.contiguous(), group=ctx.group)
        return out, None


class ContextParallel:
    """The group among whose ranks sequences are split.

    Parameters
    ----------
    group : ProcessGroup, optional
        None: nothing is split.
    """

    def __init__(self, group=None):
        self.group = group

    @property
    def causal(self):
        """Whether attention skips the keys after a query by itself."""
        return self.group is None

    def gather(self, k, v):
        """Return the keys and values that a rank's queries see; (batch, length, heads, dimension).

        Each rank has an early and a late part of the sequence, so that all do half of the pairs:
        here attention to half of the keys, all of which are gathered.
        """
        if self.group is None:
            return k, v
        both = torch.stack((k, v)).transpose(0, 2)  # length first
        both = _Gather.apply(both, self.group)
        return both[: len(both) // 2].transpose(0, 2).unbind(0)
