"""Checker of when a schedule of learning rates advances, in a job of several ranks."""

import torch
import torch.distributed as dist
from torch.optim.lr_scheduler import LambdaLR

import simgpu as sim
from d2lmini.checks.shared.solution import checker

UPDATES = 6


def _schedule(update):
    """Return the factor of an update: rising, then falling, another one in each."""
    return (1.0, 2.0, 4.0, 3.0, 1.5, 0.5, 0.25)[min(update, UPDATES)]


@checker("advance(number, optimizer, scheduler, parts)", may_change=["optimizer", "scheduler"])
def check_advance(advance):
    """Check what a training loop does after each backward pass: nothing, or an update.

    The function with the mistake of accelerate#2926 is refused with that name.

    Parameters
    ----------
    advance : callable
        ``advance(number, optimizer, scheduler, parts)``, called on every rank after the backward
        pass of each part of a minibatch, with its number from 0 on. After every `parts` parts it
        makes an update, whose learning rate is that of the schedule, and clears the gradients. The
        schedule has one learning rate for each update.

    Raises
    ------
    AssertionError
        If updates are missing, their learning rates are others, or old gradients remain.
    """
    for ranks, parts in ((1, 1), (1, 3), (2, 1), (4, 3)):
        where = f"{ranks} rank(s), {parts} part(s) for each update"
        given = advance.at(where)

        def program(rank, given=given, parts=parts):
            dist.init_process_group()
            return _train(given, parts)

        with given.running():
            updates = sim.spawn(program, nprocs=ranks)[0]
        _check_updates(updates, ranks, parts, where)
    print("advance: passed")


def _train(advance, parts):
    """Return (learning rate, parts in the gradient) of each update."""
    weight, updates = torch.nn.Parameter(torch.zeros(())), []
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scheduler = LambdaLR(optimizer, _schedule)
    optimizer.register_step_pre_hook(
        lambda *_: updates.append((optimizer.param_groups[0]["lr"], round(weight.grad.item())))
    )
    for number in range(parts * UPDATES):
        weight.sum().backward()
        advance(number, optimizer, scheduler, parts)
    return updates


def _check_updates(updates, ranks, parts, where):
    assert len(updates) == UPDATES, (
        f"{where}: {len(updates)} updates are made of {parts * UPDATES} parts, not {UPDATES}"
    )
    summed = [count for _, count in updates]
    assert summed == [parts] * UPDATES, (
        f"{where}: the gradients of the updates add up {summed} parts; clear them after each "
        "update, and at no other time"
    )
    rates, right = [rate for rate, _ in updates], _rates(1)
    assert rates == right, (
        f"{where}: the updates have the learning rates {rates}, not {right}. "
        f"{_explain(rates, ranks, parts)}"
    )


def _rates(pace, begin=0):
    """Return the learning rates of all updates if the schedule advances `pace` times for each."""
    return [_schedule(begin + pace * update) for update in range(UPDATES)]


def _explain(rates, ranks, parts):
    if ranks > 1 and rates == _rates(ranks):
        return (
            f"That is accelerate#2926: the schedule advances {ranks} times for each update, and "
            f"ends {ranks} times too early. All ranks make one update together"
        )
    if rates == _rates(0):
        return "The schedule never advances: call scheduler.step()"
    if rates == _rates(1, begin=1):
        return "It advances before the update: the first learning rate is never used"
    if rates == _rates(parts, begin=parts - 1):
        return "It advances after every part: it counts updates, so advance it with the optimizer"
    return "Advance it once after each update"
