"""Checkers of which copies an expert takes, and of the loss for balance on ranks."""

import math

import torch
from torch.nn import functional

import simgpu as sim
from d2lmini.checks.experts.copies import choices
from d2lmini.checks.shared.ranks import DEGREES, differ, draw, on_ranks
from d2lmini.checks.shared.results import number, tensor
from d2lmini.checks.shared.solution import checker

MOST_KERNELS = 100  # of a solution without a loop over tokens


@checker("keep(chosen, experts, capacity)")
def check_keep(keep):
    """Check which copies experts take if each takes at most some.

    Parameters
    ----------
    keep : callable
        ``keep(chosen, experts, capacity)``, with whole numbers `chosen` of shape (tokens, active)
        on a device; returning bools of the same shape. All first choices come before all second
        ones, and among equal choices earlier tokens come first.

    Raises
    ------
    AssertionError
        If an expert takes other copies, or if there is a loop over the tokens.
    """
    cases = (
        (16, 4, 2, 6), (3, 3, 2, 2), (8, 4, 1, 1), (12, 4, 3, 5), (256, 8, 2, 48), (6, 8, 2, 9),
    )  # fmt: skip
    (gpu,) = sim.configure(1)
    for tokens, experts, active, capacity in cases:
        chosen = choices(tokens, experts, active, seed=4)
        where = f"{tokens} tokens, {active} of {experts} experts, capacity {capacity}"
        right, begin = taken(chosen, experts, capacity), len(sim.trace())
        got = keep.at(where)(chosen.to(gpu), experts, capacity)
        got = tensor(got, f"{where}: what keep returns", right.shape).cpu()
        assert got.dtype == torch.bool, f"{where}: keep must return bools, not {got.dtype}"
        kernels = sum(span.engine != "launch" for span in sim.trace()[begin:])
        if not torch.equal(got, right):
            hint = _explain_keep(got, chosen, experts, capacity)
            raise AssertionError(f"{where}: other copies are to be kept. {hint}")
        if kernels > MOST_KERNELS:
            raise AssertionError(
                f"{where}: right, but in {kernels} kernels and copies. Let a cumulative sum of "
                "F.one_hot count for all tokens at once"
            )
    print("keep: passed")


def taken(chosen, experts, capacity, by_choice=True, late=False):
    """Return the right answer; see `check_keep`. Otherwise, token after token, or late first."""
    left, kept = [capacity] * experts, torch.zeros_like(chosen, dtype=torch.bool)
    tokens, active = (range(n) for n in chosen.shape)
    tokens = tokens[::-1] if late else tokens
    places = [(t, a) for a in active for t in tokens]
    for t, a in places if by_choice else sorted(places):
        expert = chosen[t, a].item()
        kept[t, a] = left[expert] > 0
        left[expert] -= 1
    return kept


def _explain_keep(got, chosen, experts, capacity):
    wrong = {
        "Everything is kept": torch.ones_like(got),
        "That serves the tokens one after another: a second choice of an early token takes the "
        "place of a first choice of a later one": taken(chosen, experts, capacity, False),
        "Each expert takes one too few: does its first copy have number 1?": taken(
            chosen, experts, capacity - 1
        ),
        "Each expert takes one too many: does its first copy have number 0?": taken(
            chosen, experts, capacity + 1
        ),
        "Among equal choices, earlier tokens come first": taken(
            chosen, experts, capacity, late=True
        ),
    }
    for hint, result in wrong.items():
        if torch.equal(got, result):
            return hint
    most = functional.one_hot(chosen[got], experts).sum(0).max().item() if got.any() else 0
    if most > capacity:
        return f"An expert takes {most}"
    return "Count for each expert by itself: first choices of all tokens, then second ones"


@checker("global_balance(probs, chosen)")
def check_global_balance(global_balance):
    """Check a loss for balance whose fractions are those over all ranks.

    Parameters
    ----------
    global_balance : callable
        ``global_balance(probs, chosen)``, called on every rank with its own tokens: `probs` of
        shape (tokens, experts), which need a gradient, and `chosen` of shape (tokens, active).
        Returns a number; the mean over the ranks of these numbers, and of their gradients, are
        those of the whole batch.

    Raises
    ------
    AssertionError
        If the mean of the losses, or a gradient, is wrong; the message names the usual mistakes.
    """
    tokens, experts, active = 8, 4, 2
    for t in DEGREES:
        shift = torch.arange(t).repeat_interleave(tokens)[:, None] == torch.arange(experts)
        probs = (draw(t * tokens, experts, seed=5) + 3 * shift).softmax(1)
        chosen = probs.topk(active).indices
        where = f"on {t} rank{'s' * (t > 1)}"
        given = global_balance.at(where)

        def run(rank, device, t=t, batch=(probs, chosen), given=given):
            own, chosen = (x.chunk(t)[rank].to(device) for x in batch)
            own = own.detach().requires_grad_()
            loss = given(own, chosen)
            if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
                given.fail("must return a tensor that has a gradient with respect to probs")
            loss.backward()
            return loss.detach(), own.grad

        results = on_ranks(given, run, t)[0]
        losses = [number(loss, f"{where}: what global_balance returns") for loss, _ in results]
        gradients = torch.cat([gradient for _, gradient in results])
        _compare(where, sum(losses) / t, gradients, _whole(probs, chosen), t)
    print("global_balance: passed")


def _whole(probs, chosen):
    """Return the loss of the whole batch, its gradient, and the mean of the ranks' own losses."""
    leaf, experts = probs.clone().requires_grad_(), probs.shape[1]
    fractions = chosen.flatten().bincount(minlength=experts) / chosen.numel()
    loss = experts * (fractions * leaf.mean(0)).sum()
    loss.backward()
    return loss.item(), leaf.grad


def _compare(where, mean, gradients, whole, t):
    right, right_gradients = whole
    if t > 1 and math.isclose(mean * t, right, rel_tol=1e-9):
        raise AssertionError(
            f"{where}: the mean is {mean:.4g}, {t} times too small. Counts are those of all ranks, "
            "probabilities those of one: divide each by its own number of tokens"
        )
    if not math.isclose(mean, right, rel_tol=1e-9):
        raise AssertionError(
            f"{where}: the mean over the ranks is {mean:.4g}, that of the whole batch {right:.4g}. "
            + (
                "It is the number of experts, times the sum of fraction times mean probability"
                if t == 1
                else "A rank's own fractions are not those of all: sum the counts over the ranks"
            )
        )
    if differ(gradients / t, right_gradients):
        raise AssertionError(
            f"{where}: the losses are right, but the mean of the gradients over the ranks is not "
            "that of the whole batch. Sum counts over the ranks, and leave `probs` alone: "
            "all_reduce knows nothing of gradients"
        )
