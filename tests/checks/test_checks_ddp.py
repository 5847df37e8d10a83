"""The checkers of programs on several ranks accept right solutions and name what is wrong."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from support.samples.solutions import make_tests, refuses, returns_nothing
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DistributedSampler, TensorDataset

from d2lmini.checks import concise as checks

RIGHT, WRONG = {}, {}


def shares_of(net, X, y, batch_size, mine=None):
    """Return the numbers of hits and of images of this rank's batches."""
    mine = slice(dist.get_rank(), None, dist.get_world_size()) if mine is None else mine
    X, y = X[mine], y[mine]
    batches = zip(X.split(batch_size), y.split(batch_size), strict=True)
    counts = [[(net(x).argmax(dim=1) == t).sum().item(), len(t)] for x, t in batches]
    return torch.tensor(counts, dtype=torch.float32, device=X.device)


def counts_right(net, X, y, batch_size):
    counts = shares_of(net, X, y, batch_size).sum(dim=0)
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def returns_a_tensor(net, X, y, batch_size):
    hits, images = torch.tensor(0.0, device=X.device), len(y)
    for i in range(dist.get_rank(), images, dist.get_world_size()):
        hits += (net(X[i : i + 1]).argmax(dim=1) == y[i]).sum()
    dist.all_reduce(hits)
    return hits / images


def pads(net, X, y, batch_size):
    sampler = DistributedSampler(TensorDataset(X, y), shuffle=False)
    counts = shares_of(net, X, y, batch_size, torch.tensor(list(sampler))).sum(dim=0)
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def drops_the_rest(net, X, y, batch_size):
    k = dist.get_world_size()
    return counts_right(net, X[: len(X) // k * k], y[: len(X) // k * k], batch_size)


def averages_batches(net, X, y, batch_size):
    counts = shares_of(net, X, y, batch_size)
    accuracy = (counts[:, 0] / counts[:, 1]).mean()
    dist.all_reduce(accuracy)
    return accuracy.item() / dist.get_world_size()


def averages_ranks(net, X, y, batch_size):
    hits, images = shares_of(net, X, y, batch_size).sum(dim=0)
    accuracy = hits / images
    dist.all_reduce(accuracy)
    return accuracy.item() / dist.get_world_size()


def sums_on_rank_0(net, X, y, batch_size):
    counts = shares_of(net, X, y, batch_size).sum(dim=0)
    if dist.get_rank() == 0:
        dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def reduces_to_rank_0(net, X, y, batch_size):
    counts = shares_of(net, X, y, batch_size).sum(dim=0)
    dist.reduce(counts, 0)
    return (counts[0] / counts[1]).item()


def returns_on_rank_0(net, X, y, batch_size):
    accuracy = counts_right(net, X, y, batch_size)
    return accuracy if dist.get_rank() == 0 else None


def forgets_the_other_ranks(net, X, y, batch_size):
    hits, images = shares_of(net, X, y, batch_size).sum(dim=0)
    return (hits / images).item()


def evaluates_all_everywhere(net, X, y, batch_size):
    hits, images = shares_of(net, X, y, batch_size, slice(None)).sum(dim=0)
    return (hits / images).item()


RIGHT["measure_accuracy"] = counts_right, returns_a_tensor
WRONG["measure_accuracy"] = {
    "DistributedSampler repeats images": pads,
    "none may be left out": drops_the_rest,
    r"1 rank.*a mean of means": averages_batches,
    "on 2 rank.*a mean of means": averages_ranks,
    "deadlock: no rank can go on": sums_on_rank_0,
    "all ranks must get the sum": reduces_to_rank_0,
    "on rank 1 must be a number, but it is None": returns_on_rank_0,
    "as on rank": forgets_the_other_ranks,
    "every rank evaluates all images": evaluates_all_everywhere,
    "images went through the network at once": lambda net, X, y, batch_size: counts_right(
        net, X, y, len(X)
    ),
    "on rank 0 must be a number, but it is None": returns_nothing,
}


def make_update(
    clear=True, silent=lambda i, last: i < last, weigh=len, clip="end", forward=None, steps=1
):
    """Return an update that is right by default; each argument makes a mistake."""

    def update(model, optimizer, X, y, parts, max_norm):
        def clip_now():
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)

        if clear:
            optimizer.zero_grad()
        pairs = list(zip(X.chunk(parts), y.chunk(parts), strict=True))
        for i, (x, target) in enumerate(pairs):
            if forward == "outside":
                loss = cross_entropy(model(x), target) * weigh(x) / len(X)
            with model.no_sync() if silent(i, len(pairs) - 1) else nullcontext():
                if forward != "outside":
                    net = model.module if forward == "unwrapped" else model
                    loss = cross_entropy(net(x), target) * weigh(x) / len(X)
                loss.backward()
                if clip == "parts":
                    clip_now()
        if clip == "end":
            clip_now()
        for _ in range(steps):
            optimizer.step()
        if clip == "late":
            clip_now()

    return update


WRONG["update"] = {
    "begin without old gradients": make_update(clear=False),
    "step.. once": make_update(steps=0),
    "6 messages of gradients in 2 updates": make_update(silent=lambda i, last: False),
    "the forward pass, too": make_update(forward="outside"),
    "the last part was computed in no_sync": make_update(silent=lambda i, last: True),
    "or not by `model`": make_update(forward="unwrapped"),
    "nothing was sent": make_update(silent=lambda i, last: i > 0),
    "clip once, between the last backward": make_update(clip="parts"),
    r"1 part\(s\), clipped to 0.05: this is not": make_update(clip="late"),
    r"1 part\(s\), clipped to 0.05.* before it": make_update(clip="never"),
    "weigh the mean over each": make_update(weigh=lambda x: 7),
    "need not be of equal size": make_update(weigh=lambda x: 7 / 3 if len(x) < 7 else 7),
    "take the mean over the minibatch": make_update(weigh=lambda x: 7 * len(x)),
    r"which has world_size \* len\(X\) examples": make_update(weigh=lambda x: 2 * len(x)),
    "this is not the update": returns_nothing,
}


def scales_sums_by_the_world_size(model, optimizer, X, y, parts, max_norm):
    scale = dist.get_world_size() / (dist.get_world_size() * len(X))
    optimizer.zero_grad()
    pairs = list(zip(X.chunk(parts), y.chunk(parts), strict=True))
    for i, (x, target) in enumerate(pairs):
        with model.no_sync() if i < len(pairs) - 1 else nullcontext():
            (cross_entropy(model(x), target, reduction="sum") * scale).backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()


RIGHT["update"] = make_update(), scales_sums_by_the_world_size


def test_an_endless_update_gets_a_message(monkeypatch):
    monkeypatch.setattr("d2lmini.checks.shared.time_limit.SECONDS", 1)

    def endless(*arguments):
        while True:
            dist.barrier()

    refuses(checks.check_update, endless, "does not end")


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
