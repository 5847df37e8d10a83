"""The checkers of programs on several ranks accept right solutions and name what is wrong."""

import os
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
    clear=True, silent=lambda i, last: i < last, weigh=len, clip="end", forward=None, steps=1,
    returned=lambda norm, max_norm: norm.item(),
):  # fmt: skip
    """Return an update that is right by default; each argument makes a mistake."""

    def update(model, optimizer, X, y, parts, max_norm):
        def clip_now(limit=max_norm):
            return nn.utils.clip_grad_norm_(model.parameters(), limit)

        if clear:
            optimizer.zero_grad()
        pairs, norms = list(zip(X.chunk(parts), y.chunk(parts), strict=True)), []
        for i, (x, target) in enumerate(pairs):
            if forward == "outside":
                loss = cross_entropy(model(x), target) * weigh(x) / len(X)
            with model.no_sync() if silent(i, len(pairs) - 1) else nullcontext():
                if forward != "outside":
                    net = model.module if forward == "unwrapped" else model
                    loss = cross_entropy(net(x), target) * weigh(x) / len(X)
                loss.backward()
                if clip == "parts":
                    norms.append(clip_now())
        norms.append(clip_now(max_norm if clip == "end" else torch.inf))
        for _ in range(steps):
            optimizer.step()
        if clip == "late":
            clip_now()
        return returned(norms[-2:][0], max_norm)  # of the last clip_now

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
    r"norm of its gradient is [23]\.\d\d times.*parts need not": make_update(weigh=lambda x: 7),
    "the norm after clipping; return": make_update(returned=lambda norm, most: min(norm, most)),
    "the sum of the squares": make_update(returned=lambda norm, most: norm.item() ** 2),
    "clip_grad_norm_ returns it": make_update(returned=lambda norm, most: 1.0),
    "returned on rank 0 must be a number, but it is None": (
        make_update(returned=lambda norm, most: None)
    ),
    "this is not the update": returns_nothing,
}


def scales_sums_by_the_world_size(model, optimizer, X, y, parts, max_norm):
    scale = dist.get_world_size() / (dist.get_world_size() * len(X))
    optimizer.zero_grad()
    pairs = list(zip(X.chunk(parts), y.chunk(parts), strict=True))
    for i, (x, target) in enumerate(pairs):
        with model.no_sync() if i < len(pairs) - 1 else nullcontext():
            (cross_entropy(model(x), target, reduction="sum") * scale).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return norm  # a tensor


RIGHT["update"] = make_update(), scales_sums_by_the_world_size


def make_share_loss(weight=1.0, dummy=True, size=None, scale=None, whole=False):
    """Return a loss of a share that is right by default; each argument makes a mistake."""

    def share_loss(model, X, y):
        rank, k = dist.get_rank(), dist.get_world_size()
        has_some = rank < len(X)
        if not has_some and not dummy:
            return model.module.layer.weight.sum() * 0
        mine = slice(rank, None, k) if has_some else slice(0, 1)
        mine = slice(None) if whole else mine
        each = cross_entropy(model(X[mine]), y[mine], reduction="none")
        factor = k / len(X) if scale is None else scale(k, X, each)
        return (each * (factor if has_some else weight * 0)).sum() if size is None else size(each)

    return share_loss


def gives_no_example(model, X, y):
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    return cross_entropy(model(X[mine]), y[mine], reduction="sum") * dist.get_world_size() / len(X)


def counts_the_dummy(model, X, y):
    rank, k = dist.get_rank(), dist.get_world_size()
    mine = slice(rank, None, k) if rank < len(X) else slice(0, 1)
    return cross_entropy(model(X[mine]), y[mine], reduction="sum") * k / len(X)


RIGHT["share_loss"] = make_share_loss()
WRONG["share_loss"] = {
    "this network cannot take 0 examples": gives_no_example,
    "deadlock|every rank must call the model": make_share_loss(dummy=False),
    "additional example of a rank without any must have weight 0": counts_the_dummy,
    "2 rank.*it is 0.5 times the right one": make_share_loss(scale=lambda k, X, each: 1 / len(X)),
    "1 rank.*it is 3 times the right one": make_share_loss(scale=lambda k, X, each: k),
    "DDP divides by the number of ranks": make_share_loss(scale=lambda k, X, each: 1 / len(each)),
    "give each rank its share": make_share_loss(whole=True),
    "must be of shape": make_share_loss(size=lambda each: each),
    "share_loss returns on rank 0 must be a tensor": returns_nothing,
}


def gather_seen(seen):
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, seen)
    return lists


def make_save(net=lambda m: m.module.state_dict(), seen=gather_seen, wait=True, writers=(0,)):
    """Return a function that saves rightly by default; each argument makes a mistake."""

    def save_all(path, model, mine):
        states = {"net": net(model), "seen": seen(mine)}
        if dist.get_rank() in writers:
            torch.save(states, path)
        if wait:
            dist.barrier()

    return save_all


def saves_by_another_name(path, model, seen):
    make_save()(f"{path}.new", model, seen)
    if dist.get_rank() == 0:
        os.replace(f"{path}.new", path)
    dist.barrier()


def gathers_on_rank_0(path, model, seen):
    if dist.get_rank() == 0:
        torch.save({"net": model.module.state_dict(), "seen": gather_seen(seen)}, path)
    dist.barrier()


def leaves_a_file(path, model, seen):
    make_save()(path, model, seen)
    make_save()(f"{path}.old", model, seen)


RIGHT["save_all"] = make_save(), saves_by_another_name
WRONG["save_all"] = {
    "2 rank.*run.py|2 rank.*rank 1 calls barrier": gathers_on_rank_0,
    r"ranks \[0, 1\] write one file": make_save(writers=(0, 1)),
    "rank 1 returns before the file is there": make_save(wait=False),
    "there is no file": (make_save(writers=()), returns_nothing),
    "model.module.state_dict": make_save(net=lambda model: model.state_dict()),
    "does not have the weights": make_save(net=lambda model: {}),
    "rank 0's part alone": (make_save(seen=lambda seen: seen), make_save(seen=lambda seen: [seen])),
    "collect the lists of all ranks, in": make_save(seen=lambda seen: gather_seen(seen)[::-1]),
    "run.pt.old is left": leaves_a_file,
    'a dictionary with "net" and "seen"': lambda path, model, seen: (
        make_save()(path, model, seen),
        dist.get_rank() or torch.save([1], path),
        dist.barrier(),
    ),
}


def test_an_endless_update_gets_a_message(monkeypatch):
    monkeypatch.setattr("d2lmini.checks.shared.time_limit.SECONDS", 1)

    def endless(*arguments):
        while True:
            dist.barrier()

    refuses(checks.check_update, endless, "does not end")


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
