"""The checkers of the chapter on tensor parallelism accept right solutions and name mistakes."""

import torch
import torch.distributed as dist
from support.samples.solutions import make_tests, returns_nothing
from torch.nn import functional as F

from d2lmini.checks import tensor_parallel as checks
from d2lmini.checks.tensor_parallel.layout import kv_shares

RIGHT, WRONG = {}, {}


def gated_part(x, gate_up, down, bias=None):
    t, rank = dist.get_world_size(), dist.get_rank()
    gate, up = (weight.chunk(t)[rank] for weight in gate_up.chunk(2))
    y = F.silu(F.linear(x, gate)) * F.linear(x, up)
    return F.linear(y, down.chunk(t, dim=1)[rank], bias)


def gated_mlp(x, gate_up, down, bias):
    y = gated_part(x, gate_up, down)
    dist.all_reduce(y)
    return y + bias


def bias_on_all(x, gate_up, down, bias):
    y = gated_part(x, gate_up, down, bias)
    dist.all_reduce(y)
    return y


def no_bias(x, gate_up, down, bias):
    y = gated_part(x, gate_up, down)
    dist.all_reduce(y)
    return y


def chunked_as_one(x, gate_up, down, bias):
    t, rank = dist.get_world_size(), dist.get_rank()
    gate, up = F.linear(x, gate_up.chunk(t)[rank]).chunk(2, -1)
    y = F.linear(F.silu(gate) * up, down.chunk(t, dim=1)[rank])
    dist.all_reduce(y)
    return y + bias


def summed_twice(x, gate_up, down, bias):
    dist.all_reduce(torch.ones_like(x))
    return gated_mlp(x, gate_up, down, bias)


def computed_whole(x, gate_up, down, bias):
    gate, up = F.linear(x, gate_up).chunk(2, -1)
    return F.linear(F.silu(gate) * up, down, bias)


RIGHT["gated_mlp"] = gated_mlp
WRONG["gated_mlp"] = {
    "bias was added 2 times": bias_on_all,
    "bias is missing": no_bias,
    "rows of the gate only": chunked_as_one,
    "No rank has summed": lambda x, g, d, b: gated_part(x, g, d) + b,
    "sends all_reduce, all_reduce": summed_twice,
    "sends nothing": computed_whole,
    "must be a tensor": returns_nothing,
}


def own_words(targets, words):
    local = targets - dist.get_rank() * words
    inside = (local >= 0) & (local < words)
    return local.clamp(0, words - 1)[:, None], inside


def smooth_loss(logits, targets, eps, same_top=True, whole=False, divide=True):
    words, t = logits.shape[1], dist.get_world_size()
    top = logits.max(1).values
    if same_top:
        dist.all_reduce(top, dist.ReduceOp.MAX)
    shifted = logits - top[:, None]
    local, inside = own_words(targets, words)
    target = shifted.gather(1, local)[:, 0] * inside
    sums = torch.stack([shifted.exp().sum(1) * (t if whole else 1), target, shifted.sum(1)])
    dist.all_reduce(sums)
    mean = sums[2] / (words * (t if divide else 1))
    return (sums[0].log() - (1 - eps) * sums[1] - eps * mean).mean()


def not_shifted(logits, targets, eps):
    local, inside = own_words(targets, logits.shape[1])
    target = logits.gather(1, local)[:, 0] * inside
    sums = torch.stack([logits.exp().sum(1), target, logits.sum(1)])
    dist.all_reduce(sums)
    mean = sums[2] / (logits.shape[1] * dist.get_world_size())
    return (sums[0].log() - (1 - eps) * sums[1] - eps * mean).mean()


def gathers(logits, targets, eps):
    parts = [torch.empty_like(logits) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, logits)
    return F.cross_entropy(torch.cat(parts, 1), targets, label_smoothing=eps)


RIGHT["smooth_loss"] = smooth_loss
WRONG["smooth_loss"] = {
    "off by log t": lambda z, y, eps: smooth_loss(z, y, eps, whole=True),
    "Subtract the largest logit": not_shifted,
    "Three things are sums": lambda z, y, eps: smooth_loss(z, y, eps, same_top=False),
    "the mean is over all words": lambda z, y, eps: smooth_loss(z, y, eps, divide=False),
    "without smoothing": lambda z, y, eps: smooth_loss(z, y, 0),
    "never the logits": gathers,
    "must be a number": returns_nothing,
}


def gradient_norm(gradients, is_split):
    pairs = list(zip(gradients, is_split, strict=True))
    split = sum(g.square().sum() for g, cut in pairs if cut)
    dist.all_reduce(split)
    return (split + sum(g.square().sum() for g, cut in pairs if not cut)).sqrt()


def summed_all(gradients, is_split):
    total = sum(g.square().sum() for g in gradients)
    dist.all_reduce(total)
    return total.sqrt()


def only_split(gradients, is_split):
    total = sum(g.square().sum() for g, cut in zip(gradients, is_split, strict=True) if cut)
    dist.all_reduce(total)
    return total.sqrt()


RIGHT["gradient_norm"] = gradient_norm
WRONG["gradient_norm"] = {
    "counted 2 times": summed_all,
    "its square": lambda g, cut: gradient_norm(g, cut) ** 2,
    "replicated gradients are missing": only_split,
    "Add squares, not norms": lambda g, cut: sum(part.norm() for part in g),
}

RIGHT["share_kv_heads"] = kv_shares
WRONG["share_kv_heads"] = {
    "several ranks keep a copy": lambda r, t, h, kv: (
        kv_shares(r, t, h, kv) if kv >= t else [[], [r]]
    ),
    "they share its head": lambda r, t, h, kv: (
        kv_shares(r, t, h, kv) if kv >= t else [[r % kv], kv_shares(r, t, h, kv)[1]]
    ),
    "That is all of them": lambda r, t, h, kv: [list(range(kv)), list(range(t))],
    "a part of the query heads only": lambda r, t, h, kv: [kv_shares(r, t, h, kv)[0], [r]],
    "gradients of different heads mix": lambda r, t, h, kv: [
        kv_shares(r, t, h, kv)[0], list(range(t)) if kv < t else [r]
    ],
    "nothing to sum": lambda r, t, h, kv: [kv_shares(r, t, h, kv)[0], list(range(t))],
    "a list is needed": lambda r, t, h, kv: kv_shares(r, t, h, kv)[0],
}  # fmt: skip


def dropout_seed(seed, dp, tp, t, is_split):
    return seed + dp * (1 + t) + (1 + tp if is_split else 0)


RIGHT["dropout_seed"] = dropout_seed
WRONG["dropout_seed"] = {
    "all ranks of a replica need the same seed": lambda s, dp, tp, t, cut: s + dp * t + tp,
    "each rank needs a seed of its own": lambda s, dp, tp, t, cut: s + 2 * dp + cut,
    "both kinds of generators": lambda s, dp, tp, t, cut: s + dp * t + tp * cut,
    "have different texts": lambda s, dp, tp, t, cut: s + (1 + tp if cut else 0),
    "room for all its generators": lambda s, dp, tp, t, cut: s + dp + (1 + tp if cut else 0),
    "whatever `seed` is": lambda s, dp, tp, t, cut: dropout_seed(0, dp, tp, t, cut),
    "must be a number": returns_nothing,
}


def reshard(parts, t, first=0):
    halves = [part.chunk(2) for part in parts]
    gate, up = (torch.cat([half[i] for half in halves]) for i in (first, 1 - first))
    return [torch.cat(both) for both in zip(gate.chunk(t), up.chunk(t), strict=True)]


def reshard_as_they_are(parts, t):
    return list(torch.cat(parts).chunk(t))


def reshard_one_above_the_other(parts, t):
    return list(reshard(parts, 1)[0].chunk(t))


RIGHT["reshard"] = reshard
WRONG["reshard"] = {
    r"^from 2 to 1 .* is off by \d+ %. That is ROCm/Megatron-LM#63": reshard_as_they_are,
    "lie on different ranks": reshard_one_above_the_other,
    "The gate comes first": lambda parts, t: reshard(parts, t, first=1),
    "and below them its rows of the other": lambda parts, t: [
        part.flip(0) for part in reshard(parts, t)
    ],
    "must be of shape": lambda parts, t: [part[1:] for part in reshard(parts, t)],
    "reshard returned 2 items": lambda parts, t: parts,
    "reshard returned None": returns_nothing,
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
