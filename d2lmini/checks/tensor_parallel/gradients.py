"""Checkers of gradients on t ranks, some of them split and others replicated."""

import math

from torch.nn import functional

from d2lmini.checks.shared.ranks import DEGREES, differ, draw, on_ranks
from d2lmini.checks.shared.results import number, tensor
from d2lmini.checks.shared.solution import checker
from d2lmini.checks.tensor_parallel.forward import HIDDEN


@checker("gradient_norm(gradients, is_split)")
def check_gradient_norm(gradient_norm):
    """Check the norm of all gradients, some of them split and others replicated.

    Parameters
    ----------
    gradient_norm : callable
        ``gradient_norm(gradients, is_split)``, called on every rank with its gradients and, for
        each, whether it is this rank's part of a larger one (otherwise all ranks have the same);
        returning the norm of the whole model's gradient.

    Raises
    ------
    AssertionError
        If it returns another norm; the message names the usual mistakes.
    """
    shapes, is_split = ((8, 4), (8,), (4, 8), (6,)), [True, False, True, False]
    for t in DEGREES:
        whole = [draw(*shape, seed=i) for i, shape in enumerate(shapes)]
        split = sum(g.square().sum().item() for g in whole[::2])
        copies = sum(g.square().sum().item() for g in whole[1::2])
        where = f"on {t} rank{'s' * (t > 1)}"
        given = gradient_norm.at(where)

        def run(rank, device, t=t, whole=whole, given=given):
            parts = [g.chunk(t)[rank] if cut else g for g, cut in zip(whole, is_split, strict=True)]
            return given([p.to(device) for p in parts], list(is_split))

        for got in on_ranks(given, run, t)[0]:
            got = number(got, f"{where}: what gradient_norm returns")
            right = math.sqrt(split + copies)
            if not math.isclose(got, right, rel_tol=1e-9):
                raise AssertionError(
                    f"{where}: it is {right:.6g}, not {got:.6g}. "
                    f"{_explain_norm(got, split, copies, t)}"
                )
    print("gradient_norm: passed")


def _explain_norm(got, split, copies, t):
    if math.isclose(got, math.sqrt(split + t * copies), rel_tol=1e-9):
        return f"Replicated gradients are counted {t} times: sum over ranks only what is split"
    if math.isclose(got, split + copies, rel_tol=1e-9):
        return "That is its square"
    if math.isclose(got, math.sqrt(split), rel_tol=1e-9):
        return "The replicated gradients are missing"
    return "Add squares, not norms: those of the parts over all ranks, then those of the copies"


@checker("norm_gradients(x, weight, gradient)")
def check_norm_gradients(norm_gradients):
    """Check the gradients of a normalisation layer when each rank has a part of the tokens.

    Parameters
    ----------
    norm_gradients : callable
        ``norm_gradients(x, weight, gradient)``, called on every rank with its tokens, the whole
        weight and the gradient with respect to its part of the output of ``rms_norm``; returning
        the gradients with respect to `x` and `weight`.

    Raises
    ------
    AssertionError
        If a gradient is wrong; the message names the usual mistakes.
    """
    x, upstream = draw(8, HIDDEN, seed=5), draw(8, HIDDEN, seed=6)
    weight = draw(HIDDEN, seed=7)
    leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
    functional.rms_norm(leaves[0], (HIDDEN,), leaves[1]).backward(upstream)
    for t in DEGREES:
        where = f"on {t} rank{'s' * (t > 1)}"
        given = norm_gradients.at(where)

        def run(rank, device, t=t, given=given):
            own = (x.chunk(t)[rank], weight, upstream.chunk(t)[rank])
            return given.items(given(*(part.to(device) for part in own)), 2)

        for rank, pair in enumerate(on_ranks(given, run, t)[0]):
            right = leaves[0].grad.chunk(t)[rank], leaves[1].grad
            for got, wanted, name in zip(pair, right, ("x", "weight"), strict=True):
                got = tensor(got, f"{where}: the gradient of `{name}`", wanted.shape)
                if differ(got, wanted):
                    hint = _explain_norm_gradient(got, wanted, name, t)
                    raise AssertionError(f"{where}: the gradient of `{name}` is wrong. {hint}")
    print("norm_gradients: passed")


def _explain_norm_gradient(got, right, name, t):
    if name == "x":
        return "It is the gradient of this rank's own tokens; nothing has to be sent for it"
    if t == 1:
        return "One rank has all tokens: rms_norm(...).backward(gradient) gives it"
    if not differ(got, right / t):
        return "That is the mean over the ranks: the tokens' gradients have to be summed"
    if not differ(got, right * t):
        return f"It is {t} times too large: the sum over the ranks was made more than once"
    return (
        "Each rank sees a part of the tokens, so it has only a part of the gradient of the norm, "
        "which is replicated: sum it over the ranks"
    )
