"""What fused attention kernels return, by products and a softmax in float32 on the host.

The scores are computed in blocks of some heads and queries, so that the host never holds all of
them. As in the kernels, the backward pass recomputes them from the log-sum-exp of each query;
and it draws the same dropout from the seed that the forward pass returns.
"""

import math
from dataclasses import dataclass

import torch

BLOCK = 2**23  # scores in a block


@dataclass
class Attention:
    """Attention of queries to keys and values of shape (batch, heads, length, size of a head).

    Attributes
    ----------
    query, key, value : torch.Tensor
        `key` and `value` may have fewer heads.
    bias : torch.Tensor or None
        Added to the scores; broadcast to (batch, heads, queries, keys).
    dropout : float
    diagonal : int or None
        Query i sees the keys up to i + `diagonal`; None: all keys.
    scale : float or None
        Factor of the scores; None: one over the square root of the size of a head.
    seed : int
        Of dropout.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    bias: torch.Tensor | None
    dropout: float
    diagonal: int | None
    scale: float | None
    seed: int = 0

    def __post_init__(self):
        wide = self.query.dtype is torch.float64
        self.dtype = torch.float64 if wide else torch.float32
        if self.scale is None:
            self.scale = 1 / math.sqrt(self.query.shape[-1])
        self.batch, self.heads, self.queries = self.query.shape[:3]
        self.keys = self.key.shape[2]
        self.groups = self.heads // self.key.shape[1]

    def forward(self, out):
        """Write the output; return the log-sum-exps, (batch, heads, queries)."""
        sums = torch.empty(out.shape[:3], dtype=torch.float32)
        query, key, value = self._flat(self.query), self._shared(self.key), self._shared(self.value)
        results, flat_sums = query.new_empty(*query.shape[:2], value.shape[-1]), sums.flatten(0, 1)
        for heads, rows, kept in self._blocks():
            scores = self._scores(query[heads, rows], key[heads], heads, rows)
            total = torch.logsumexp(scores, -1)
            # A query that sees no key gets zeros, and infinity, for the backward pass.
            nothing = total == -math.inf
            flat_sums[heads, rows] = total.masked_fill(nothing, math.inf)
            weights = torch.softmax(scores, -1).masked_fill_(nothing.unsqueeze(-1), 0)
            if kept is not None:
                weights *= kept
            results[heads, rows] = weights @ value[heads]
        out.copy_(results.view(out.shape))
        return sums

    def backward(self, grad, out, sums, grads):
        """Write the gradients of query, key, value and, if it is not None, of the bias."""
        grad, out = self._flat(grad), self._flat(out)
        query, key, value = self._flat(self.query), self._shared(self.key), self._shared(self.value)
        sums = sums.to(self.dtype).flatten(0, 1).unsqueeze(-1)
        found = [torch.zeros_like(x) for x in (query, key, value)]
        for heads, rows, kept in self._blocks():
            weights = self._scores(query[heads, rows], key[heads], heads, rows)
            weights = weights.sub_(sums[heads, rows]).exp_()
            from_above = grad[heads, rows] @ value[heads].mT
            dropped = weights if kept is None else weights * kept
            found[2][heads] += dropped.mT @ grad[heads, rows]
            if kept is not None:
                from_above *= kept
            mean = (grad[heads, rows] * out[heads, rows]).sum(-1, keepdim=True)
            scores = weights.mul_(from_above.sub_(mean))
            if grads[3] is not None:
                grads[3].flatten(0, 1)[heads, rows] = scores.to(grads[3].dtype)
            found[0][heads, rows] = scores @ key[heads] * self.scale
            found[1][heads] += scores.mT @ query[heads, rows] * self.scale
        for one, own in zip(grads, found, strict=False):
            groups = self.heads // one.shape[1]
            one.copy_(own.view(self.batch, one.shape[1], groups, *own.shape[1:]).sum(2))

    def _flat(self, x):
        """Return (batch * heads, length, size) in the type in which we compute."""
        return x.to(self.dtype).reshape(-1, *x.shape[2:])

    def _shared(self, x):
        """Return keys or values for each head of the queries."""
        return self._flat(x.repeat_interleave(self.groups, 1) if self.groups > 1 else x)

    def _blocks(self):
        """Yield the heads and queries of each block, and what dropout multiplies its weights by."""
        draw = torch.Generator().manual_seed(self.seed)
        rows = max(1, min(self.queries, BLOCK // max(1, self.keys)))
        heads = max(1, BLOCK // max(1, rows * self.keys))
        for first in range(0, self.batch * self.heads, heads):
            some = slice(first, min(first + heads, self.batch * self.heads))
            for row in range(0, self.queries, rows):
                part, kept = slice(row, min(row + rows, self.queries)), None
                if self.dropout:
                    shape = some.stop - some.start, part.stop - part.start, self.keys
                    kept = torch.empty(shape, dtype=self.dtype)
                    kept.bernoulli_(1 - self.dropout, generator=draw)
                    kept /= max(1 - self.dropout, torch.finfo(self.dtype).tiny)
                yield some, part, kept

    def _scores(self, query, key, heads, rows):
        scores = (query @ key.mT).mul_(self.scale)
        if self.bias is not None:
            whole = self.bias.expand(self.batch, self.heads, self.queries, self.keys)
            number = torch.arange(heads.start, heads.stop)
            scores += whole[number // self.heads, number % self.heads, rows]
        if self.diagonal is not None:
            last = torch.arange(rows.start, rows.stop).unsqueeze(-1) + self.diagonal
            scores.masked_fill_(torch.arange(self.keys) > last, -math.inf)
        return scores
