"""Checkers of gradients: their norm in shards, the weight of a loss, and its scale."""

import math

import torch

from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker

# Norms of each rank's gradients: one list per replica, with one norm per shard.
NORMS = (
    [[3.0, 4.0]],
    [[0.8], [0.8]],
    [[3.0, 4.0, 12.0], [3.0, 4.0, 12.0]],
    [[0.0, 2.0], [0.0, 2.0], [0.0, 2.0]],
)


@checker("global_norm(norms)")
def check_global_norm(global_norm):
    """Check a function that combines the norms of shards.

    Parameters
    ----------
    global_norm : callable
        ``global_norm(norms)``, returning the norm of all gradients. `norms` has one list per
        replica, with the norm of the gradients of each of its shards; all replicas hold the same
        gradients.

    Raises
    ------
    AssertionError
        If it returns another norm; the message names the usual mistakes.
    """
    for norms in NORMS:
        where = f"norms of {norms}"
        got = global_norm.at(where)([list(row) for row in norms])
        got = number(got, f"{where}: what global_norm returns")
        right = math.hypot(*norms[0])
        if math.isclose(got, right, rel_tol=1e-6):
            continue
        hint = ""
        if math.isclose(got, math.hypot(*(x for row in norms for x in row)), rel_tol=1e-6):
            hint = (
                "; that counts each gradient once for every replica that holds it, and clips "
                f"by a norm that is {math.sqrt(len(norms)):.3f} times too large"
            )
        elif math.isclose(got, sum(norms[0]), rel_tol=1e-6):
            hint = "; norms do not add up, their squares do"
        raise AssertionError(f"{where}: global_norm returned {got:.6g}, not {right:.6g}{hint}")
    print("global_norm: passed")


@checker("loss_weight(tokens, rank)")
def check_loss_weight(loss_weight):
    """Check the factor by which a rank multiplies its mean loss.

    Parameters
    ----------
    loss_weight : callable
        ``loss_weight(tokens, rank)``, where `tokens` has the number of tokens on each rank. The
        gradients, averaged over ranks afterwards, must be those of the mean over all tokens.

    Raises
    ------
    AssertionError
        If they are not; the message names the usual mistakes.
    """
    for tokens in ([5, 5], [1, 3], [10, 0, 2], [7, 9, 1, 3]):
        where, n = f"tokens {tokens}", len(tokens)
        weights = [
            number(
                loss_weight.at(where)(list(tokens), rank),
                f"{where}: what loss_weight returns on rank {rank}",
            )
            for rank in range(n)
        ]
        right = [n * count / sum(tokens) for count in tokens]
        if _close(weights, right):
            continue
        hint = "the weights must be in proportion to the tokens"
        if _close(weights, [1] * n):
            hint = "that is the mean of the ranks' means: a token on a rank with few counts more"
        elif _close(weights, [w / n for w in right]):
            hint = f"the gradients are divided by the {n} ranks once more, when they are averaged"
        raise AssertionError(f"{where}: weights {weights}, not {right}; {hint}")
    print("loss_weight: passed")


def _close(a, b):
    return all(math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-9) for x, y in zip(a, b, strict=True))


# Names and gradients: of both signs, with zeros, and some that need a scale below 1.
GRADIENTS = {
    "tiny gradients": [[3e-9, -2e-8, 0.0], [7e-7, 1e-12]],
    "one layer with larger gradients": [[1e-6, 2e-6], [0.04, -0.3]],
    "the largest is negative": [[1e-3, -0.9, 0.5]],
    "gradients as large as float16 can be": [[65504.0, 1e-3], [1.0]],
    "gradients too large for float16": [[2e6, -1.0], [0.5]],
}


@checker("loss_scale(gradients)")
def check_loss_scale(loss_scale):
    """Check a function that chooses the loss scale for gradients in float16.

    Parameters
    ----------
    loss_scale : callable
        ``loss_scale(gradients)`` returning the largest power of two by which a list of float32
        tensors can be multiplied without a value becoming infinite in float16.

    Raises
    ------
    AssertionError
        If it is not a power of two, a gradient overflows, or a larger one is possible.
    """
    for where, values in GRADIENTS.items():
        gradients = [torch.tensor(v) for v in values]
        scale = loss_scale.at(where)(gradients)
        scale = number(scale, f"{where}: the scale that loss_scale returns")
        assert 0 < scale < math.inf, f"{where}: a scale is a positive number, got {scale}"
        assert math.frexp(scale)[0] == 0.5, (
            f"{where}: {scale:g} is not a power of two; multiplying by another number rounds the "
            "gradients"
        )
        assert not _overflows(gradients, scale), (
            f"{where}: multiplied by {scale:g}, a gradient becomes infinite in float16, whose "
            f"largest number is {torch.finfo(torch.float16).max:g}. Look at all tensors, and at "
            "the absolute values"
        )
        assert _overflows(gradients, 2 * scale), (
            f"{where}: {scale:g} is not the largest scale, {2 * scale:g} overflows nowhere either; "
            "with the larger one fewer gradients become 0"
        )
    print("loss_scale: passed")


def _overflows(gradients, scale):
    """Return whether a gradient becomes infinite in float16 when multiplied by `scale`."""
    return any((gradient.double() * scale).half().isinf().any() for gradient in gradients)
