"""Losses of a Llama, with its output layer: whole, in chunks of tokens, or fused with it."""

import torch
import torch.nn.functional as F
from llama import loss_of


def _hidden(model, tokens):
    """Return what the output layer gets."""
    output, model.output = model.output, torch.nn.Identity()
    x = model(tokens)
    model.output = output
    return x


def chunked(model, tokens, count=8):
    """As torchtune: logits of all chunks, then the loss of one after the other."""
    parts = _hidden(model, tokens).chunk(count, dim=1)
    logits = [model.output(part).flatten(0, 1) for part in parts]
    targets = [part.flatten() for part in tokens.chunk(count, dim=1)]
    total = (tokens != -100).sum()
    losses = [
        F.cross_entropy(x.float(), y, reduction="sum") for x, y in zip(logits, targets, strict=True)
    ]
    return sum(losses) / total


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, targets):
        """Compute loss and gradients of 1,024 tokens after the others."""
        grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight)
        losses = torch.empty(len(x), device=x.device)
        for i in range(0, len(x), 1024):
            part, target = x[i : i + 1024], targets[i : i + 1024]
            p = torch.softmax(part @ weight.t(), -1)
            losses[i : i + 1024] = -p.gather(1, target[:, None]).float().log().squeeze(1)
            p.scatter_add_(1, target[:, None], -torch.ones_like(p[:, :1]))
            grad_x[i : i + 1024] = p @ weight
            grad_weight.addmm_(p.t(), part)
        ctx.save_for_backward(grad_x, grad_weight)
        return losses.sum()

    @staticmethod
    def backward(ctx, grad):
        """Return what is already there."""
        return *ctx.saved_tensors, None


def fused(model, tokens):
    """As Liger: gradients of the output layer are computed forward."""
    x = _hidden(model, tokens).flatten(0, 1)
    return _Fused.apply(x, model.output.weight, tokens.flatten())


LOSSES = {
    "eager": lambda model, tokens: loss_of(model(tokens), tokens),
    "chunked": chunked,
    "fused": fused,
}
