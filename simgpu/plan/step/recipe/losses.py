"""Losses: of logits that are there as a whole, in chunks of tokens, or never kept.

A `Program` names one of `OF_LOGITS`, or ``"chunked"`` or ``"fused"``, which compute the logits
themselves (`OF_HIDDEN`).
"""

import torch
import torch.nn.functional as F

from simgpu.compiled.regions import Region


class _InPlace(torch.autograd.Function):
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


def _cross_entropy(logits):
    logits = logits.float()
    return F.cross_entropy(
        logits, torch.zeros(len(logits), dtype=torch.int64, device=logits.device)
    )


# Of logits, (tokens, vocabulary).
OF_LOGITS = {
    "eager": _cross_entropy, "compiled": Region(_cross_entropy), "in place": _InPlace.apply,
}  # fmt: skip


def _chunked(x, table, program):
    """Multiply in chunks of tokens, and take the loss of one after the other, in 32 bits.

    As torchtune's ``CEWithChunkedOutputLoss``; compiled with the layers, as its recipes do.
    """
    chunks = [F.linear(part, table) for part in x.tensor_split(program.loss_chunks)]
    loss = OF_LOGITS["compiled" if program.compiled else "eager"]
    return sum(loss(chunk) for chunk in chunks) / len(chunks)


class _Fused(torch.autograd.Function):
    """Product and loss of so few tokens at a time that logits need no more than the tokens do.

    As Liger's ``fused_linear_cross_entropy``: gradients are computed in the forward pass, in which
    one kernel makes them of the logits, in their place. The host waits twice: to count the targets,
    and to see that the loss is not scaled.
    """

    @staticmethod
    def forward(ctx, x, table):
        of_x, of_table = torch.zeros_like(x), torch.zeros_like(table)
        rows = _rows(len(x), *table.shape)
        logits = x.new_empty(rows, len(table))
        torch.accelerator.synchronize()
        for begin in range(0, len(x), rows):
            part, own = x[begin : begin + rows], logits[: len(x) - begin]
            torch.mm(part, table.t(), out=own)
            torch.softmax(own, -1, out=own)
            torch.mm(own, table, out=of_x[begin : begin + rows])
            torch.addmm(of_table, own.t(), part, out=of_table)
        ctx.save_for_backward(of_x, of_table)
        return x.new_zeros(len(x), dtype=torch.float32).sum()

    @staticmethod
    def backward(ctx, grad):
        torch.accelerator.synchronize()
        return ctx.saved_tensors


def _rows(tokens, vocabulary, hidden):
    """Return the tokens of a chunk: a power of two, with about as many logits as x has numbers."""
    few = -(-tokens // -(-vocabulary // hidden))
    return min(1 << (few - 1).bit_length(), tokens)


def _fused(x, table, program):
    return _Fused.apply(x, table)


# Of what the output layer gets, (tokens, hidden), its weights, and a program.
OF_HIDDEN = {"chunked": _chunked, "fused": _fused}
