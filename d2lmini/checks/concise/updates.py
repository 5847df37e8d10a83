"""Checker of an update that accumulates gradients in parts and clips them."""

import math

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import simgpu as sim
from d2lmini.checks.concise.ranks import on_ranks
from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker
from simgpu.timeline import Timeline

EXAMPLES, UPDATES = 7, 2  # examples per rank, consecutive updates
LARGE, SMALL = 1e6, 0.05  # norms that clip no gradient, and every gradient


@checker("update(model, optimizer, X, y, parts, max_norm)", may_change=["model", "optimizer"])
def check_update(update):
    """Check an update that accumulates gradients in parts and clips them.

    Parameters
    ----------
    update : callable
        ``update(model, optimizer, X, y, parts, max_norm)``, called on every rank: `model` is
        wrapped in `DistributedDataParallel`; X, y are the rank's share of a minibatch, of equal
        size on all ranks, to be computed in `parts` parts, whose sizes may differ. The gradients
        are sent in one message; the gradient of the mean cross-entropy over the minibatch is
        clipped to the norm `max_norm`. It returns the norm before that, on every rank.

    Raises
    ------
    AssertionError
        If the update or the norm is not that of one process, or more than necessary is sent.
    """
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(2 * EXAMPLES, 5, generator=generator)
    y = torch.randint(3, (2 * EXAMPLES,), generator=generator)
    for parts, max_norm in ((1, LARGE), (1, SMALL), (3, LARGE), (3, SMALL)):
        clips = f"clipped to {max_norm}" if max_norm < LARGE else "nothing to clip"
        where = f"2 ranks, {parts} part(s), {clips}"
        given = update.at(where)
        net = _make_net()

        def program(rank, device, given=given, parts=parts, max_norm=max_norm):
            model = DistributedDataParallel(_make_net().to(device))
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            features, labels = X[rank::2].to(device), y[rank::2].to(device)
            norms = [
                given(model, optimizer, features, labels, parts, max_norm) for _ in range(UPDATES)
            ]
            norms = [norm.cpu() if isinstance(norm, torch.Tensor) else norm for norm in norms]
            return [p.detach().cpu() for p in model.parameters()], norms

        results = on_ranks(given, 2, program)
        lane = Timeline(sim.trace()).lanes().get(("rank 0 sim:0", "comm"), [])
        sent = sum(message.name == "all_reduce" for message in lane)
        norms = _train_alone(net, X, y, max_norm)
        ratio = _ratio(results[0][1][0], norms[0])
        _check_update([weights for weights, _ in results], net, sent, parts, max_norm, where, ratio)
        for rank, (_, returned) in enumerate(results):
            _check_norms(returned, norms, max_norm, f"{where}: the norm returned on rank {rank}")
    print("update: passed")


def _make_net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Linear(5, 3)


def _train_alone(net, X, y, max_norm):
    """Make the same updates in one process; return the norms of the gradients."""
    optimizer, norms = torch.optim.SGD(net.parameters(), lr=1.0), []
    for _ in range(UPDATES):
        optimizer.zero_grad()
        cross_entropy(net(X), y).backward()
        norms.append(nn.utils.clip_grad_norm_(net.parameters(), max_norm).item())
        optimizer.step()
    return norms


def _ratio(norm, right):
    """Say how far the norm that an update returned is from the right one, if it is a number."""
    try:
        times = float(norm) / right
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return ""  # `_check_norms` says what it is
    if math.isclose(times, 1, rel_tol=1e-3):
        return ""
    return f" (the norm of its gradient is {times:.2f} times the right one)"


def _check_update(results, net, sent, parts, max_norm, where, ratio):
    first, second = results
    assert all(map(torch.equal, first, second)), (
        f"{where}: the replicas differ. Each rank clipped by a norm of its own, or nothing "
        "was sent: the last part was computed in no_sync(), too, or not by `model`"
    )
    assert sent <= UPDATES, (
        f"{where}: {sent} messages of gradients in {UPDATES} updates. Inside of model.no_sync() "
        "nothing is sent: compute all parts except the last in it, the forward pass, too"
    )
    if all(torch.allclose(a, b, atol=1e-5) for a, b in zip(first, net.parameters(), strict=True)):
        return
    hint = (
        "take the mean over the minibatch, which has world_size * len(X) examples, begin without "
        "old gradients, and step() once"
    )
    if max_norm < LARGE:
        hint = (
            "clip once, between the last backward() and step(): before it the gradients are not "
            "complete"
        )
    elif parts > 1:
        hint = (
            "the parts need not be of equal size; divide the sum of the losses of each by len(X), "
            "or weigh the mean over each by its size over len(X), and let all gradients add up"
        )
    raise AssertionError(f"{where}: this is not the update that one process makes{ratio}: {hint}")


def _check_norms(returned, wanted, max_norm, where):
    """Raise AssertionError unless the norms of all updates are those of one process."""
    for got, right in zip(returned, wanted, strict=True):
        got = number(got, where)
        if math.isclose(got, right, rel_tol=1e-4):
            continue
        hint = "clip_grad_norm_ returns it"
        if math.isclose(got, min(right, max_norm), rel_tol=1e-4):
            hint = "that is the norm after clipping; return the one before"
        elif math.isclose(got, right**2, rel_tol=1e-4):
            hint = "that is the sum of the squares; take its square root"
        raise AssertionError(f"{where} is {got:.4f}, but {right:.4f} is right: {hint}")
