"""Checkers of forward passes on t ranks: a gated MLP, and a loss on split logits."""

import math

import torch
from torch.nn import functional

from d2lmini.checks.shared.ranks import DEGREES, differ, draw, messages, on_ranks
from d2lmini.checks.shared.results import number, tensor
from d2lmini.checks.shared.solution import checker

TOKENS, HIDDEN, WIDTH, WORDS = 5, 8, 12, 16


@checker("gated_mlp(x, gate_up, down, bias)")
def check_gated_mlp(gated_mlp):
    """Check the forward pass of a gated MLP on t ranks, with one all-reduce.

    Parameters
    ----------
    gated_mlp : callable
        ``gated_mlp(x, gate_up, down, bias)``, called on every rank with whole tensors on its
        device: `gate_up` of shape (2 w, h) has the rows of the gate above those of the other
        factor. It returns ``(silu(x G^T) * (x U^T)) down^T + bias``, and uses only this rank's
        part of the weights.

    Raises
    ------
    AssertionError
        If the result is wrong, or anything but one all-reduce of it is sent.
    """
    x, gate_up = draw(TOKENS, HIDDEN), draw(2 * WIDTH, HIDDEN, seed=1)
    down, bias = draw(HIDDEN, WIDTH, seed=2), draw(HIDDEN, seed=3)
    gate, up = functional.linear(x, gate_up).chunk(2, -1)
    right = functional.linear(functional.silu(gate) * up, down, bias)
    for t in DEGREES:
        where = f"on {t} rank{'s' * (t > 1)}"
        given = gated_mlp.at(where)

        def run(rank, device, given=given):
            return given(*(part.to(device) for part in (x, gate_up, down, bias)))

        results, lanes = on_ranks(given, run, t)
        sent = [span.name for span in messages(lanes)]
        for got in results:
            got = tensor(got, f"{where}: what gated_mlp returns", right.shape)
            if differ(got, right):
                hint = _explain_mlp(got, right, bias, t, sent)
                raise AssertionError(f"{where}: the result is wrong. {hint}")
        if t > 1 and sent != ["all_reduce"]:
            raise AssertionError(
                f"{where}: the result is right, but it sends {_list(sent)}; one all_reduce of the "
                "result is enough: each rank multiplies its part of the gate with the same part "
                "of the other factor, and with its columns of `down`"
            )
    print("gated_mlp: passed")


def _list(names):
    return ", ".join(names) or "nothing"


def _explain_mlp(got, right, bias, t, sent):
    if not differ(got - right, ((t - 1) * bias).expand_as(right)):
        return f"The bias was added {t} times: add it once, after the sum"
    if not differ(got - right, -bias.expand_as(right)):
        return "The bias is missing"
    if t > 1 and "all_reduce" not in sent:
        return "No rank has summed the parts: dist.all_reduce(result)"
    if t > 1:
        return (
            "Does each rank take its rows of the gate and the same rows of the other factor? "
            "gate_up.chunk(t) gives some ranks rows of the gate only: take it apart first"
        )
    return "On one rank it is (silu(gate) * up) times down, plus the bias"


@checker("smooth_loss(logits, targets, eps)")
def check_smooth_loss(smooth_loss):
    """Check cross-entropy with label smoothing on logits that are split along the vocabulary.

    Parameters
    ----------
    smooth_loss : callable
        ``smooth_loss(logits, targets, eps)``, called on every rank with its columns of the logits
        and the targets of all tokens; returning the mean over the tokens of
        ``(1 - eps) (-log p[target]) + eps mean_v(-log p[v])``.

    Raises
    ------
    AssertionError
        If the loss is wrong, or if logits are sent.
    """
    targets = torch.tensor([0, 5, 15, 8, 3])
    for scale, eps in ((1, 0.0), (1, 0.1), (1000, 0.1)):
        logits = scale * draw(TOKENS, WORDS, seed=4)
        right = functional.cross_entropy(logits, targets, label_smoothing=eps).item()
        for t in DEGREES:
            where = f"on {t} rank{'s' * (t > 1)}, logits of about {scale}, eps = {eps}"
            given = smooth_loss.at(where)

            def run(rank, device, t=t, logits=logits, eps=eps, given=given):
                own = logits.chunk(t, 1)[rank].contiguous()
                return given(own.to(device), targets.to(device), eps)

            results, lanes = on_ranks(given, run, t)
            for got in results:
                got = number(got, f"{where}: what smooth_loss returns")
                if not math.isclose(got, right, rel_tol=1e-9):
                    hint = _explain_loss(got, right, logits, targets, t, eps)
                    raise AssertionError(f"{where}: it is {right:.6g}, not {got:.6g}. {hint}")
            _refuse_large(where, messages(lanes))
    print("smooth_loss: passed")


def _refuse_large(where, spans):
    most = max((span.bytes for span in spans), default=0)
    assert most <= 4 * 8 * TOKENS, (
        f"{where}: the loss is right, but it sends {most} bytes at once. Send a few numbers for "
        "each token (the maximum, sums), never the logits"
    )


def _explain_loss(got, right, logits, targets, t, eps):
    if not math.isfinite(got):
        return "Subtract the largest logit of the token before exp(); of all ranks, not of one"
    if math.isclose(abs(got - right), math.log(t), rel_tol=1e-6) and t > 1:
        return (
            "It is off by log t: a sum over the vocabulary that is already whole on every rank was "
            "summed over the ranks once more, or one that is only a part was not"
        )
    plain = functional.cross_entropy(logits, targets).item()
    if eps and math.isclose(got, plain, rel_tol=1e-9):
        return "That is the loss without smoothing"
    if t == 1:
        return "One rank has all columns: compare with F.cross_entropy(..., label_smoothing=eps)"
    return (
        "Three things are sums over all ranks: exp(logit - maximum), the target's logit (0 where a "
        "rank does not have it), and, for the mean, all logits; the mean is over all words"
    )
