"""The layers of a transformer, each rank's part of them."""

import functools

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from simgpu.compiled.regions import Region
from simgpu.plan.step.chains import chains_of
from simgpu.plan.step.experts import Experts
from simgpu.plan.step.products import activate, bias, weight
from simgpu.plan.step.recipe.losses import OF_HIDDEN, OF_LOGITS

# Fused kernels of attention that a `Program` can name.
KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


DROPOUT = 0.1


class Norm(nn.Module):
    """Layer norm, or RMS norm of a gated model."""

    def __init__(self, model):
        super().__init__()
        self.weight, self.gated = weight(model.hidden), model.gated
        self.bias = bias(model, model.hidden)

    def forward(self, x):
        """Normalise the last dimension."""
        if self.gated:
            return F.rms_norm(x, self.weight.shape, self.weight)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


class Layer(nn.Module):
    """Attention and feed-forward part; x is (sequence, batch, hidden).

    Parameters
    ----------
    model : Model
    program : Program
    split : tensor_parallel.Split
    context : ContextParallel
        Among whose ranks the sequences are split.
    places : experts.Places
        Which ranks have which experts.
    """

    def __init__(self, model, program, split, context, places):
        super().__init__()
        self.model, self.program, self.split, self.context = model, program, split, context
        h, t = model.hidden, split.size
        self.head, self.heads, self.keys = model.head_size, model.heads // t, model.keys // t
        self.chains, self.dropout = chains_of(program), DROPOUT if model.dropout else 0.0
        self.norm1, self.norm2 = Norm(model), Norm(model)
        rows = (self.heads + 2 * self.keys) * self.head
        self.qkv, self.qkv_bias = weight(rows, h), bias(model, rows)
        self.out, self.out_bias = weight(h, self.heads * self.head), bias(model, h)
        parts = [Experts(model, program, places)] if model.experts else []
        if model.shared or not parts:
            width = model.shared if parts else model.width
            parts.append(FeedForward(model, program, split, width))
        self.feed_forward = nn.ModuleList(parts)
        if program.compiled:
            self.forward = Region(self.forward)

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
        y = self._attention(self.split.column(self.norm1(x), self.qkv, self.qkv_bias))
        x = self.chains.add(x, *self.split.row(y, self.out, self.out_bias), self.dropout)
        return self.chains.add(x, *self._feed_forward(self.norm2(x)), self.dropout)

    def _feed_forward(self, x):
        """Return the sum of all parts, and the bias that is still to be added."""
        parts = [part(x) for part in self.feed_forward]
        (y, bias), *others = reversed(parts)  # the last one may have a bias
        return sum((z for z, _ in others), y), bias

    def _attention(self, y):
        length, batch = y.shape[:2]
        sizes = [heads * self.head for heads in (self.heads, self.keys, self.keys)]
        parts = y.split(sizes, -1)
        q, k, v = (x.reshape(length, batch, -1, self.head).transpose(0, 1) for x in parts)
        if self.model.gated:
            angles = self.chains.angles(length, self.head, y.device)
            q, k = (self.chains.rotate(x, angles) for x in (q, k))
        q, (k, v), pairs = q.transpose(1, 2), self.context.gather(k, v), self.context.causal
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        attend = self._scores if self.program.attention == "unfused" else self._fused
        if self.program.recompute == "attention":
            z = checkpoint(attend, q, k, v, pairs, use_reentrant=False, preserve_rng_state=False)
        else:
            z = attend(q, k, v, pairs)
        return z.permute(2, 0, 1, 3).reshape(length, batch, -1)

    def _fused(self, q, k, v, causal):
        """Attend in the kernel that PyTorch chooses, or in the one that the program names."""
        options = {"is_causal": causal, "enable_gqa": self.keys != self.heads}
        if self.program.attention == "chosen":
            return F.scaled_dot_product_attention(q, k, v, **options)
        with sdpa_kernel(KERNELS[self.program.attention]):
            return F.scaled_dot_product_attention(q, k, v, **options)

    def _scores(self, q, k, v, causal):
        """Attend with kernels for the products, the masked softmax, and dropout."""
        batch, heads, length = q.shape[:3]
        k, v = (x.repeat_interleave(heads // x.shape[1], 1) if x.shape[1] < heads else x
                for x in (k, v))  # fmt: skip
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        scores = torch.bmm(q, k.transpose(1, 2)).softmax(-1)
        if self.model.dropout:
            scores = F.dropout(scores, DROPOUT)
        return torch.bmm(scores, v).view(batch, -1, length, self.head)


class FeedForward(nn.Module):
    """A feed-forward part that works on every token; other arguments as of `Layer`.

    Parameters
    ----------
    width : int
        Columns between its products, on all ranks together.
    """

    def __init__(self, model, program, split, width):
        super().__init__()
        self.gated, self.chains, self.split = model.gated, chains_of(program), split
        rows = (2 if model.gated else 1) * width // split.size
        self.up, self.up_bias = weight(rows, model.hidden), bias(model, rows)
        self.down = weight(model.hidden, width // split.size)
        self.down_bias = bias(model, model.hidden)

    def forward(self, x):
        """Widen, and narrow again as `Split.row` does; x is (sequence, batch, hidden)."""
        y = activate(self.split.column(x, self.up, self.up_bias), self.gated, self.chains)
        return self.split.row(y, self.down, self.down_bias)


class _Policy:
    """Keep attention and every second product."""

    def __init__(self):
        self.seen = {True: 0, False: 0}

    def __call__(self, context, op, *args, **kwargs):
        name = op.overloadpacket.__name__ if hasattr(op, "overloadpacket") else ""
        if name in ("mm", "addmm", "_scaled_mm"):
            self.seen[context.is_recompute] += 1
            keep = self.seen[context.is_recompute] % 2
        else:
            attention = name.startswith("_scaled_dot_product")
            keep = attention or name == "reduce_scatter_tensor"
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


class Embedding(nn.Module):
    """Look up tokens, (batch, sequence) -> (sequence, batch, hidden)."""

    def __init__(self, model, split):
        super().__init__()
        self.model, self.split = model, split
        self.table = weight(-(-model.vocabulary // split.size), model.hidden)
        self.positions = None if model.gated else weight(model.seq, model.hidden)

    def forward(self, tokens):
        """Embed this rank's part of the vocabulary, and sum over the ranks."""
        x = F.embedding(tokens.t(), self.table)
        if self.split.size > 1:
            x = self.split.leave(x)
        if self.positions is not None:
            x = x + self.positions[: x.shape[0], None]
        return F.dropout(x, DROPOUT) if self.model.dropout else x


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
        self.norm, self.split, self.program = Norm(model), split, program
        self.table = weight(-(-model.vocabulary // split.size), model.hidden)
        if table is not None:
            self.table = table

    def forward(self, x):
        """Return the loss; targets are any."""
        x, loss = self.norm(x), self.program.loss
        if loss in OF_HIDDEN:
            return OF_HIDDEN[loss](x.flatten(0, 1), self.table, self.program)
        logits = self.split.column(x, self.table).flatten(0, 1)
        if self.split.size > 1:
            for _ in range(2):  # the largest and the sum, over the ranks
                dist.all_reduce(logits.new_empty(len(logits)), group=self.split.group)
        return OF_LOGITS[loss](logits)
