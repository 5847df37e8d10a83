"""The checkers of the chapter on experts accept right solutions and name mistakes."""

import torch
import torch.distributed as dist
from support.samples.solutions import make_tests, returns_nothing
from torch.nn import functional as F

from d2lmini.checks import experts as checks
from d2lmini.checks.experts.copies import rows_away

RIGHT, WRONG = {}, {}


def combine(y, order, scores):
    active = scores.shape[1]
    score = scores.flatten()[order]
    out = y.new_zeros(len(scores), y.shape[1])
    return out.index_add(0, order // active, y * score[:, None])


def sorts(y, order, scores):
    return weighted(y[order.argsort()], scores)


def weighted(copies, scores):
    return (copies.unflatten(0, scores.shape) * scores[..., None]).sum(1)


def of_the_exercise(y, order, scores):
    out = y.new_zeros(len(scores), y.shape[1])
    return out.index_add(0, order // scores.shape[1], y * scores.flatten()[:, None])


RIGHT["combine"] = (
    combine,
    lambda y, order, s: weighted(torch.zeros_like(y).index_copy(0, order, y), s),
)
WRONG["combine"] = {
    "which weight belongs to row i": of_the_exercise,
    "the other way round": lambda y, order, scores: weighted(y[order], scores),
    "still sorted by expert": lambda y, order, scores: weighted(y, scores),
    "score of its copy": lambda y, order, s: combine(y, order, torch.ones_like(s)),
    "but it sorts": sorts,
    "belongs to token": lambda y, order, scores: 2 * combine(y, order, scores),
    "must be a tensor": returns_nothing,
}


def needs(sizes, layers, rest, ranks, held=None, used=None):
    one = layers * 3 * sizes.hidden * sizes.width
    held, used = held or sizes.experts, used or sizes.active
    return 16 * (rest + one * held / ranks), 6 * (rest + one * used)


def all_distributed(sizes, layers, rest, ranks):
    return needs(sizes, layers, 0, ranks)[0] + 16 * rest / ranks, 0


def flops_of_a_rank(sizes, layers, rest, ranks):
    held, flops = needs(sizes, layers, rest, ranks)
    return held, 6 * rest + (flops - 6 * rest) / ranks


RIGHT["needs"] = needs
WRONG["needs"] = {
    "The next token uses others": lambda s, n, r, k: needs(s, n, r, k, held=s.active),
    "That counts all experts": lambda s, n, r, k: needs(s, n, r, k, used=s.experts),
    "Only the experts are distributed": all_distributed,
    "are distributed over the GPUs": lambda s, n, r, k: needs(s, n, r, 1),
    "do not divide by the number of GPUs": flops_of_a_rank,
    "It is 16 for each weight": lambda s, n, r, k: (0, 0),
    "6 for each weight that the token uses": lambda s, n, r, k: (needs(s, n, r, k)[0], 0),
    "a list of 2 is needed": returns_nothing,
}


def leaving(chosen, experts, nodes, home):
    node = chosen // (experts // nodes)
    needed = F.one_hot(node, nodes).amax(1)
    needed[:, home] = 0
    return (node != home).sum().item(), needed.sum().item()


def dealt_out(chosen, experts, nodes, home):
    node = chosen % nodes
    return leaving(node, nodes, nodes, home)


def tokens_that_leave(chosen, experts, nodes, home):
    copies, _ = leaving(chosen, experts, nodes, home)
    return copies, (chosen // (experts // nodes) != home).any(1).sum()


RIGHT["leaving"] = (leaving, rows_away)
WRONG["leaving"] = {
    "those that stay in the node": lambda c, e, n, home: (c.numel(), rows_away(c, e, n, home)[1]),
    "is sent to both": tokens_that_leave,
    "follow each other": dealt_out,
    "Expert e is in node": lambda c, e, n, home: (0, 0),
    "a list of 2 is needed": returns_nothing,
}


def keep(chosen, experts, capacity, transpose=True):
    places = chosen.T if transpose else chosen
    one_hot = F.one_hot(places.flatten(), experts)
    place = (one_hot.cumsum(0) * one_hot).sum(1)
    kept = (place <= capacity).view(places.shape)
    return kept.T if transpose else kept


def keep_in_a_loop(chosen, experts, capacity):
    left, kept = [capacity] * experts, torch.zeros_like(chosen, dtype=torch.bool)
    for a in range(chosen.shape[1]):
        for t in range(chosen.shape[0]):
            expert = chosen[t, a].item()
            kept[t, a] = left[expert] > 0
            left[expert] -= 1
    return kept


def late_first(chosen, experts, capacity):
    return keep(chosen.flip(0), experts, capacity).flip(0)


def all_experts_together(chosen, experts, capacity):
    kept = torch.zeros_like(chosen, dtype=torch.bool)
    kept[:capacity] = True
    return kept


RIGHT["keep"] = keep
WRONG["keep"] = {
    "one after another": lambda c, e, n: keep(c, e, n, transpose=False),
    "one too few": lambda c, e, n: keep(c, e, n - 1),
    "one too many": lambda c, e, n: keep(c, e, n + 1),
    "earlier tokens come first": late_first,
    "Everything is kept": lambda c, e, n: torch.ones_like(c, dtype=torch.bool),
    "first choices of all tokens": all_experts_together,
    "must return bools": lambda c, e, n: keep(c, e, n).float(),
    "in [0-9]+ kernels": keep_in_a_loop,
    "must be a tensor": returns_nothing,
}


def global_balance(probs, chosen, local=False, all_tokens=False):
    experts = probs.shape[1]
    counts = chosen.flatten().bincount(minlength=experts)
    if not local:
        dist.all_reduce(counts)
    mean = probs.sum(0) / len(probs) / (dist.get_world_size() if all_tokens else 1)
    return experts * (counts / counts.sum() * mean).sum()


def sums_probs(probs, chosen):
    mean = global_balance(probs, chosen)
    with torch.no_grad():
        dist.all_reduce(mean)
    return mean / dist.get_world_size()


RIGHT["global_balance"] = global_balance
WRONG["global_balance"] = {
    "own fractions are not those of all": lambda p, c: global_balance(p, c, local=True),
    "2 times too small": lambda p, c: global_balance(p, c, all_tokens=True),
    "It is the number of experts": lambda p, c: global_balance(p, c) / p.shape[1],
    "all_reduce knows nothing of gradients": sums_probs,
    "has a gradient": (returns_nothing, lambda p, c: global_balance(p.detach(), c)),
}


def clip_norm(dense, experts, replicas, divide=None, copies=True, dense_copies=True):
    ranks, sharing = dist.get_world_size(), dist.get_world_size(replicas)
    square = 0.0
    for g in dense:
        mean = g.clone()
        dist.all_reduce(mean)
        square = square + (mean / ranks).square().sum() / (ranks if dense_copies else 1)
    for g in experts:
        mean = g.clone()
        dist.all_reduce(mean, group=replicas)
        by = sharing if divide == "replicas" else ranks
        square = square + (mean / by).square().sum() / (sharing if copies else 1)
    dist.all_reduce(square)
    return square.sqrt()


def no_division(dense, experts, replicas):
    return clip_norm(dense, experts, replicas) * dist.get_world_size()


def squares_first(dense, experts, replicas):
    square = sum(g.square().sum() for g in [*dense, *experts])
    dist.all_reduce(square)
    return square.sqrt() / dist.get_world_size()


def own_experts(dense, experts, replicas):
    square = sum(g.square().sum() for g in experts)
    return (clip_norm(dense, [], replicas) ** 2 + square).sqrt()


RIGHT["clip_norm"] = clip_norm
WRONG["clip_norm"] = {
    "part is 2 times too large": lambda d, e, r: clip_norm(d, e, r, divide="replicas"),
    "Nothing was divided": no_division,
    "counted 4 times": lambda d, e, r: clip_norm(d, e, r, dense_copies=False),
    "once on each replica": lambda d, e, r: clip_norm(d, e, r, copies=False),
    "as often as there are ranks": lambda d, e, r: clip_norm(
        d, e, r, copies=False, dense_copies=False
    ),
    "experts are missing": lambda d, e, r: clip_norm(d, [], r),
    "Squares were added before": squares_first,
    "its square": lambda d, e, r: clip_norm(d, e, r) ** 2,
    "Average first": own_experts,
    "must be a number": returns_nothing,
}


def mixture(x, chosen, experts, skip=False):
    out = torch.zeros_like(x)
    for i, expert in enumerate(experts):
        mine = chosen == i
        if mine.any() or not skip:
            out[mine] = expert(x[mine])
    return out


def mixture_with_a_row_of_zeros(x, chosen, experts):
    out = torch.zeros_like(x)
    for i, expert in enumerate(experts):
        mine = (chosen == i).nonzero()[:, 0]
        if len(mine):
            out = out.index_add(0, mine, expert(x[mine]))
        else:
            out = out + 0 * expert(x[:1]).sum()
    return out


def mixture_of_all(x, chosen, experts):
    every = torch.stack([expert(x) for expert in experts])
    return every[chosen, torch.arange(len(x))]


def mixture_with_other_gradients(x, chosen, experts):
    out = mixture(x, chosen, experts)
    for expert in experts:
        extra = expert.bias.sum()
        out = out + extra - extra.detach()
    return out


RIGHT["mixture"] = mixture, mixture_with_a_row_of_zeros
WRONG["mixture"] = {
    "on rank 1, rank 1: expert 2 has no tokens, and no gradient. That is DeepSpeed#5066": (
        lambda *a: mixture(*a, skip=True)
    ),
    "expert 0 computes 4 rows, but 2 tokens": mixture_of_all,
    "is not that of its [12] tokens": mixture_with_other_gradients,
    "expert 0 has tokens, but no gradient": lambda x, chosen, experts: (
        mixture(x, chosen, experts).detach() + experts[1](x[:0]).sum()
    ),
    "not the result of its token's expert": lambda x, chosen, experts: mixture(
        x, chosen.flip(0), experts
    ),
    "must be of shape": lambda x, chosen, experts: mixture(x, chosen, experts)[:0],
    "must be a tensor, but it is None": returns_nothing,
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
