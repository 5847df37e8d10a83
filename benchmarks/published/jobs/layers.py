"""The layers of a transformer, each rank's part of them."""

import functools

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from benchmarks.published.jobs.kernels import flash_attention


def _weight(*shape):
    return nn.Parameter(torch.empty(*shape))


def _rotate(x, angles, compiled):
    return x * angles.to(x.dtype) if compiled else (x.float() * angles).type_as(x)


def _dropout(x):
    return torch.native_dropout(x, 0.1, True)[0]  # CUDA's kernel, which keeps a byte a number


class Norm(nn.Module):
    """Layer norm or RMS norm; compiled, one kernel that reads once and writes once."""

    def __init__(self, model, compiled):
        super().__init__()
        self.weight, self.plain = _weight(model.hidden), model.gated and not compiled

    def forward(self, x):
        """Normalise the last dimension."""
        norm = F.rms_norm if self.plain else F.layer_norm
        return norm(x, self.weight.shape, self.weight)


class Layer(nn.Module):
    """Attention and feed-forward part; x is (sequence, batch, hidden).

    Parameters
    ----------
    model : Model
    program : Program
    split : tensor_parallel.Split
    """

    def __init__(self, model, program, split):
        super().__init__()
        self.model, self.program, self.split = model, program, split
        h, t = model.hidden, split.size
        self.head, self.heads, self.keys = h // model.heads, model.heads // t, model.keys // t
        self.norm1, self.norm2 = Norm(model, program.compiled), Norm(model, program.compiled)
        self.qkv = _weight((self.heads + 2 * self.keys) * self.head, h)
        self.out = _weight(h, h // t)
        self.up = _weight((2 if model.gated else 1) * model.width // t, h)
        self.down = _weight(h, model.width // t)

    def forward(self, x):
        """Run the layer, so that what is recomputed is not kept."""
        kind = self.program.recompute
        if kind in ("full", "all"):
            return checkpoint(self._run, x, use_reentrant=False, preserve_rng_state=False)
        if kind == "products":
            return checkpoint(
                self._run, x, use_reentrant=False, preserve_rng_state=False,
                context_fn=functools.partial(create_selective_checkpoint_contexts, _Policy()),
            )  # fmt: skip
        return self._run(x)

    def _run(self, x):
        split, compiled = self.split, self.program.compiled
        y = split.column(self.norm1(x), self.qkv)
        x = x + self._drop(split.row(self._attention(y, compiled), self.out))
        y = split.column(self.norm2(x), self.up)
        if not self.model.gated:
            y = F.gelu(y)
        elif compiled:
            y = F.glu(y)  # moves the bytes of a fused SwiGLU
        else:
            gate, y = y.chunk(2, -1)
            y = F.silu(gate) * y
        return x + self._drop(split.row(y, self.down))

    def _drop(self, x):
        return _dropout(x) if self.model.dropout else x

    def _attention(self, y, compiled):
        length, batch = y.shape[:2]
        sizes = [heads * self.head for heads in (self.heads, self.keys, self.keys)]
        parts = y.split(sizes, -1)
        q, k, v = (x.reshape(length, batch, -1, self.head).transpose(0, 1) for x in parts)
        if self.model.gated:
            angles = torch.empty(length, 1, self.head, device=y.device)
            q, k = _rotate(q, angles, compiled), _rotate(k, angles, compiled)
        if self.model.flash:
            z = flash_attention(q, k, v, *self.program.attention)
        elif self.program.recompute == "attention":
            z = checkpoint(self._scores, q, k, v, use_reentrant=False, preserve_rng_state=False)
        else:
            z = self._scores(q, k, v)
        return z.transpose(0, 1).reshape(length, batch, -1)

    def _scores(self, q, k, v):
        """Attend with kernels for the products, the masked softmax, and dropout."""
        batch, length = q.shape[:2]
        q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))
        scores = torch.bmm(q, k.transpose(1, 2)).softmax(-1)
        if self.model.dropout:
            scores = _dropout(scores)
        return torch.bmm(scores, v).view(batch, -1, length, self.head).transpose(1, 2)


class _Policy:
    """Keep attention and every second product."""

    def __init__(self):
        self.seen = {True: 0, False: 0}

    def __call__(self, context, op, *args, **kwargs):
        name = op.overloadpacket.__name__ if hasattr(op, "overloadpacket") else ""
        if name in ("mm", "product"):
            self.seen[context.is_recompute] += 1
            keep = self.seen[context.is_recompute] % 2
        else:
            keep = name in ("attend", "reduce_scatter_tensor")
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


class _Loss(torch.autograd.Function):
    """Cross entropy as Megatron computes it: the probabilities take the place of the logits."""

    @staticmethod
    def forward(ctx, logits):
        x = logits.float()
        x.sub_(x.amax(-1, keepdim=True)).exp_()
        total = x.sum(-1, keepdim=True)
        ctx.save_for_backward(x.div_(total))
        ctx.dtype = logits.dtype
        return total.log_().mean()

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0].mul_(grad).to(ctx.dtype)


class Embedding(nn.Module):
    """Look tokens up, (batch, sequence) -> (sequence, batch, hidden)."""

    def __init__(self, model, split):
        super().__init__()
        self.model, self.split = model, split
        self.table = _weight(-(-model.vocabulary // split.size), model.hidden)
        self.positions = None if model.gated else _weight(model.seq, model.hidden)

    def forward(self, tokens):
        """Embed this rank's part of the vocabulary, and sum over the ranks."""
        x = F.embedding(tokens.t(), self.table)
        if self.split.size > 1:
            x = self.split.leave(x)
        if self.positions is not None:
            x = x + self.positions[: x.shape[0], None]
        return _dropout(x) if self.model.dropout else x


class Head(nn.Module):
    """Norm, output layer and loss.

    Parameters
    ----------
    model, program, split
        As for `Layer`.
    table : torch.nn.Parameter, optional
        The embedding's, if it is tied and on the same rank.
    """

    def __init__(self, model, program, split, table=None):
        super().__init__()
        self.norm, self.split = Norm(model, program.compiled), split
        self.in_place = program.loss_in_place
        self.table = _weight(-(-model.vocabulary // split.size), model.hidden)
        if table is not None:
            self.table = table

    def forward(self, x):
        """Return the loss; targets are any."""
        logits = self.split.column(self.norm(x), self.table).flatten(0, 1)
        if self.split.size > 1:
            for _ in range(2):  # the largest and the sum, over the ranks
                dist.all_reduce(logits.new_empty(len(logits)), group=self.split.group)
        if self.in_place:
            return _Loss.apply(logits)
        logits = logits.float()
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64, device=x.device))
