"""The checkers of the chapter on long sequences accept right solutions and name mistakes."""

import math

import torch
import torch.distributed as dist
from support.samples.solutions import make_tests, returns_nothing
from torch.nn import functional as F

from d2lmini.checks import long_sequences as checks

RIGHT, WRONG = {}, {}


def pass_on(*tensors, way=1):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    new = [torch.empty_like(x) for x in tensors]
    calls = [dist.P2POp(dist.isend, x, (rank + way) % ranks) for x in tensors]
    calls += [dist.P2POp(dist.irecv, x, (rank - way) % ranks) for x in new]
    return dist.batch_isend_irecv(calls), new


def arrived(works, new):
    for work in works:
        work.wait()
    return new


def sum_round(k, v, use, steps=None, way=1):
    total, steps = 0, steps or dist.get_world_size()
    for step in range(steps):
        if step + 1 < steps:
            works, following = pass_on(k, v, way=way)
        total = total + use(k, v)
        if step + 1 < steps:
            k, v = arrived(works, following)
    return total


def stale(k, v, use):
    total, ranks = 0, dist.get_world_size()
    if ranks > 1:
        works, following = pass_on(k, v)
    for step in range(ranks):
        total = total + use(k, v)
        if step + 1 < ranks:
            k, v = following
            if step + 2 < ranks:
                works, following = pass_on(k, v)
    if ranks > 1:
        arrived(works, following)
    return total


def waits_first(k, v, use):
    total, ranks = 0, dist.get_world_size()
    for step in range(ranks):
        total = total + use(k, v)
        if step + 1 < ranks:
            k, v = arrived(*pass_on(k, v))
    return total


def keys_alone(k, v, use):
    total, ranks = 0, dist.get_world_size()
    for _ in range(ranks):
        works, (following,) = pass_on(k)
        total = total + use(k, v)
        (k,) = arrived(works, [following])
    return total


RIGHT["sum_round"] = (sum_round, lambda k, v, use: sum_round(k, v, use, way=-1))
WRONG["sum_round"] = {
    "not finished|not arrived|wait": stale,
    "no message is under way": waits_first,
    "each part must be used once on each rank": (
        keys_alone,
        lambda k, v, use: sum_round(k, v, use, max(1, dist.get_world_size() - 1)),
        lambda k, v, use: sum_round(k, v, use, dist.get_world_size() + 1),
    ),
    "must be a tensor": returns_nothing,
}


def mask(queries, keys):
    return queries[:, None] >= keys


RIGHT["mask"] = mask
WRONG["mask"] = {
    "not places in the shard": lambda q, k: torch.ones(len(q), len(k), dtype=torch.bool).tril(),
    "sees the later key": lambda q, k: torch.ones(len(q), len(k), dtype=torch.bool),
    "does not see its own key": lambda q, k: q[:, None] > k,
    "later key at 1": lambda q, k: q[:, None] <= k,
    "must be of bools": lambda q, k: (q[:, None] >= k).int(),
    "shape": lambda q, k: q >= k[:, None] if len(q) != len(k) else mask(q, k),
    "must be a tensor": returns_nothing,
}


def pass_uneven(x, lengths, source, back=1, way=1):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    tokens = lengths[(source - back) % ranks]
    new = x.new_empty(*x.shape[:-2], tokens, x.shape[-1])
    calls = [
        dist.P2POp(dist.isend, x.contiguous(), (rank + way) % ranks),
        dist.P2POp(dist.irecv, new, (rank - way) % ranks),
    ]
    return arrived(dist.batch_isend_irecv(calls), new)


def as_long_as_mine(x, lengths, source):
    (new,) = arrived(*pass_on(x))
    return new


def by_its_rank(x, lengths, source):  # right in the first step alone
    return pass_uneven(x, lengths, dist.get_rank())


def padded(x, lengths, source):
    (new,) = arrived(*pass_on(F.pad(x, (0, 0, 0, max(lengths) - x.shape[-2]))))
    return new


RIGHT["pass_uneven"] = pass_uneven
RIGHT["pass_uneven"] = (
    pass_uneven,
    lambda x, n, source: padded(x, n, source)[..., : n[(source - 1) % len(n)], :].contiguous(),
)
WRONG["pass_uneven"] = {
    "with shards of 750/750/750/749 tokens": (as_long_as_mine, by_its_rank),
    "shape": padded,
    "is not what the previous rank had": lambda x, lengths, source: (
        x if len(set(lengths)) == 1 else pass_uneven(x, lengths, source)
    ),
    "must be a tensor": returns_nothing,
}


def grouped_ring(q, k, v, spread=torch.repeat_interleave, sent_whole=False, causal=True):
    groups, (rank, ranks) = q.shape[1] // k.shape[1], (dist.get_rank(), dist.get_world_size())
    out, total = 0, 0
    if sent_whole:
        k, v = (spread(x, groups, 1).contiguous() for x in (k, v))
    for step in range(ranks):
        if step + 1 < ranks:
            works, following = pass_on(k, v)
        K, V = (k, v) if sent_whole else (spread(x, groups, 1) for x in (k, v))
        scores = q @ K.mT / math.sqrt(q.shape[-1])
        places = torch.arange(q.shape[2], device=q.device)
        own, theirs = (places + q.shape[2] * r for r in (rank, (rank - step) % ranks))
        if causal:
            scores = scores.masked_fill(own[:, None] < theirs, -math.inf)
        weights = scores.exp()
        out, total = out + weights @ V, total + weights.sum(-1, keepdim=True)
        if step + 1 < ranks:
            k, v = arrived(works, following)
    return out / total


def tiled(x, groups, dim):
    return x.repeat(1, groups, 1, 1)


RIGHT["grouped_ring"] = grouped_ring
WRONG["grouped_ring"] = {
    "head i uses head i // g": lambda q, k, v: grouped_ring(q, k, v, spread=tiled),
    "sends .* bytes": lambda q, k, v: grouped_ring(q, k, v, sent_whole=True),
    "attention has to be causal": lambda q, k, v: grouped_ring(q, k, v, causal=False),
    "is not that of one GPU": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True
    ),
    "must be a tensor": returns_nothing,
}


def gather(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return parts


def whole_again(part, places):
    joined = torch.cat(gather(part), 2)
    whole = torch.empty_like(joined)
    whole[:, :, torch.cat(gather(places))] = joined
    return whole


def own_alone(part, places):
    whole = part.new_zeros(*part.shape[:2], part.shape[2] * dist.get_world_size(), part.shape[3])
    whole[:, :, places] = part
    return whole


def as_zigzag(part, places):
    early, late = zip(*(x.tensor_split(2, 2) for x in gather(part)), strict=True)
    return torch.cat([*early, *reversed(late)], 2)


RIGHT["whole_again"] = (
    whole_again,
    lambda part, places: torch.cat(gather(part), 2)[:, :, torch.cat(gather(places)).argsort()],
)
WRONG["whole_again"] = {
    "in the order of the ranks": lambda part, places: torch.cat(gather(part), 2),
    "says where a token belongs": lambda part, places: torch.cat(gather(part), 2)[
        :, :, torch.cat(gather(places))
    ],
    "not those of other ranks": own_alone,
    "tokens in stripes: rank 0 does not return": as_zigzag,
    "shape": lambda part, places: part,
    "must be a tensor": returns_nothing,
}


def sequence_gradients(model, tokens, targets, op=dist.ReduceOp.SUM, own=False, mean=True):
    count = torch.tensor(len(targets), device=targets.device)
    if not own:
        dist.all_reduce(count)
    loss = F.cross_entropy(model(tokens), targets, reduction="sum")
    (loss / count if mean else loss).backward()
    for parameter in model.parameters():
        if op is not None:
            dist.all_reduce(parameter.grad, op=op)


def averaged(*arguments, **how):
    sequence_gradients(*arguments, op=dist.ReduceOp.AVG, **how)


def averaged_and_scaled(model, tokens, targets):
    averaged(model, tokens, targets)
    for parameter in model.parameters():
        parameter.grad *= dist.get_world_size()


RIGHT["sequence_gradients"] = sequence_gradients, averaged_and_scaled
WRONG["sequence_gradients"] = {
    r"^2 rank.*: it is 0.5 times the right one. That is Automodel#3157": averaged,
    "of the rank's own tokens: add up": lambda *a: sequence_gradients(*a, op=None),
    "has seen no other rank": lambda *a: sequence_gradients(*a, op=None, own=True),
    "different numbers of tokens count equally": lambda *a: averaged(*a, own=True),
    "The means of the ranks are added": lambda *a: sequence_gradients(*a, own=True),
    "Divide the sum of the losses": lambda *a: sequence_gradients(*a, mean=False),
    "and add up the gradients": lambda *a: (sequence_gradients(*a), sequence_gradients(*a)),
    "has no gradient of a parameter": returns_nothing,
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
