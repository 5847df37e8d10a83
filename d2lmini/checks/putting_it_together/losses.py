"""Checkers of losses on a mesh: what is added, what is a copy, and what counts."""

import math

import torch

from d2lmini.checks.putting_it_together.meshes import each, run_on, same_everywhere
from d2lmini.checks.shared.ranks import draw
from d2lmini.checks.shared.results import describe
from d2lmini.checks.shared.solution import checker

AXES = "replicate", "shard", "context", "tensor"
MESHES = ((1, 1, 1, 1), (1, 1, 2, 2), (2, 2, 1, 1), (1, 2, 1, 4), (1, 2, 2, 2))
PIPELINES = ((1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 1, 2), (4, 2, 1), (2, 2, 2))
TOKENS = 6


@checker("shown_loss(own, mesh)")
def check_shown_loss(shown_loss):
    """Check the loss of a step from the parts that the ranks of a mesh have.

    Parameters
    ----------
    shown_loss : callable
        ``shown_loss(own, mesh)``, called on every rank with its part of the loss; the mesh has the
        axes replicate, shard, context and tensor. It returns the loss, on every rank.

    Raises
    ------
    AssertionError
        If it returns another one; the message names the usual mistakes.
    """
    for sizes, where in each(AXES, MESHES):
        parts = _parts(sizes)
        given = shown_loss.at(where)
        results = run_on(given, sizes, lambda at, parts=parts: (parts[_data(at)].clone(),))
        got = same_everywhere(results, where, "shown_loss")
        _check_loss(got, parts, sizes, where)
    print("shown_loss: passed")


@checker("loss_everywhere(own, mesh)")
def check_loss_everywhere(loss_everywhere):
    """Check the loss of a step that only the last stage of a pipeline has parts of.

    Parameters
    ----------
    loss_everywhere : callable
        ``loss_everywhere(own, mesh)``, called on every rank with its part of the loss, which is
        None except on the last stage; the mesh has the axes pipeline, shard and tensor. It returns
        the loss, a tensor, on every rank.

    Raises
    ------
    AssertionError
        If it returns another one; the message names the usual mistakes.
    """
    for sizes, where in each(("pipeline", "shard", "tensor"), PIPELINES):
        parts = _parts(sizes)
        last = sizes["pipeline"] - 1

        def arguments(at, parts=parts, last=last):
            return (parts[_data(at)].clone() if at["pipeline"] == last else None,)

        results = run_on(loss_everywhere.at(where), sizes, arguments)
        for rank, value in enumerate(results):
            assert isinstance(value, torch.Tensor), (
                f"{where}: rank {rank} returns {describe(value)}; the loss, a tensor, is needed on "
                "all stages"
            )
        got = same_everywhere(results, where, "loss_everywhere")
        _check_loss(got, parts, sizes, where)
    print("loss_everywhere: passed")


@checker("token_mean(losses, targets, mesh)")
def check_token_mean(token_mean):
    """Check the mean loss over the valid tokens of all ranks.

    Parameters
    ----------
    token_mean : callable
        ``token_mean(losses, targets, mesh)``, called on every rank with the losses and the targets
        of its tokens; a target of -100 does not count. It returns the mean over all that count.

    Raises
    ------
    AssertionError
        If it returns another mean; the message names the usual mistakes.
    """
    for sizes, where in each(AXES, MESHES):
        texts = {key: _text(i, len(_parts(sizes))) for i, key in enumerate(_parts(sizes))}

        def arguments(at, texts=texts):
            return tuple(tensor.clone() for tensor in texts[_data(at)])

        results = run_on(token_mean.at(where), sizes, arguments)
        got = same_everywhere(results, where, "token_mean")
        right, means, everything = _means(texts.values())
        if not math.isclose(got, right, rel_tol=1e-9):
            hint = _explain_mean(got, right, means, everything, sizes)
            raise AssertionError(f"{where}: the mean is {right:.6g}, not {got:.6g}. {hint}")
    print("token_mean: passed")


def _data(at):
    """Return the coordinates that decide which tokens a rank has."""
    return tuple(number for axis, number in at.items() if axis not in ("pipeline", "tensor"))


def _parts(sizes):
    """Return coordinates -> a part of the loss."""
    data = [size for axis, size in sizes.items() if axis not in ("pipeline", "tensor")]
    places = torch.cartesian_prod(*(torch.arange(size) for size in data)).view(-1, len(data))
    return {tuple(p.tolist()): draw(1, seed=i)[0].abs() + 0.1 for i, p in enumerate(places)}


def _text(i, count):
    """Return losses and targets of the i-th of several ranks; the last of them has padding only."""
    targets = torch.arange(TOKENS)
    targets[TOKENS - i % TOKENS :] = -100
    if count > 1 and i == count - 1:
        targets[:] = -100
    return draw(TOKENS, seed=i).abs() * (i + 1), targets


def _means(texts):
    """Return the mean over valid tokens, that of the ranks' means, and that over all tokens."""
    valid = [losses[targets != -100] for losses, targets in texts]
    means = [losses.mean().item() for losses in valid if len(losses)]
    everything = torch.cat([losses for losses, _ in texts]).mean().item()
    return torch.cat(valid).mean().item(), means, everything


def _explain_mean(got, right, means, everything, sizes):
    copies, ranks = sizes["tensor"], math.prod(sizes.values())
    if math.isnan(got):
        return "A rank whose tokens are all padding has no mean: add up sums and counts"
    if math.isclose(got, right * copies, rel_tol=1e-9):
        return f"It is {copies} times too large: copies are in one sum and not in the other"
    if any(math.isclose(got, right / n, rel_tol=1e-9) for n in (ranks, ranks // copies)):
        return (
            f"It is {right / got:.0f} times too small. That is transformers#37474: what is divided "
            "by the tokens of all ranks already is then averaged. Add it up"
        )
    if math.isclose(got, everything, rel_tol=1e-9):
        return "Padding counts, too: leave out tokens whose target is -100"
    if math.isclose(got, sum(means) / len(means), rel_tol=1e-9):
        return "That is the mean of the ranks' means: ranks have different numbers of valid tokens"
    return "Add up the losses that count and their number, both over all ranks, and divide once"


def _check_loss(got, parts, sizes, where):
    right = sum(part.item() for part in parts.values())
    if math.isclose(got, right, rel_tol=1e-9):
        return
    ratio, ranks = got / right, math.prod(sizes.values())
    hint = "Add up the parts of all ranks; what several ranks have copies of counts once"
    if math.isclose(ratio, 1 / ranks, rel_tol=1e-6) or math.isclose(
        ratio, sizes["tensor"] / ranks, rel_tol=1e-6
    ):
        hint = "The parts have to be added: each is divided by the tokens of all ranks already"
    elif math.isclose(ratio, sizes["tensor"], rel_tol=1e-6):
        hint = f"The {sizes['tensor']} ranks that share tensors have copies of the same part"
    elif math.isclose(ratio, sizes.get("pipeline", 0), rel_tol=1e-6):
        hint = "Only one stage has a part; the others add nothing"
    raise AssertionError(
        f"{where}: the loss is {right:.6g}, not {got:.6g}, which is {ratio:.3g} times as much. "
        f"{hint}"
    )
