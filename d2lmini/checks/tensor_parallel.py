"""Checkers for the exercises of the chapter on tensor parallelism.

Where a solution is a program of ranks, it runs on simulated GPUs, and what it has sent is counted.
"""

import math

import torch
from torch.nn import functional

from d2lmini.checks._results import number, tensor, whole_number
from d2lmini.checks._solution import checker
from d2lmini.checks._tensor_answers import (
    MACHINES,
    degree,
    explain_degree,
    explain_kv,
    explain_loss,
    explain_mlp,
    explain_norm,
    explain_norm_gradient,
    explain_seeds,
    explain_sharers,
    kv_shares,
)
from d2lmini.checks._tensor_ranks import DEGREES, TOKENS, differ, draw, on_ranks

HIDDEN, WIDTH, WORDS = 8, 12, 16


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
        If the result is another one, or something else is sent than one sum of it.
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

        results, spans = on_ranks(given, run, t)
        sent = [span.name for span in spans]
        for got in results:
            got = tensor(got, f"{where}: what gated_mlp returns", right.shape)
            if differ(got, right):
                hint = explain_mlp(got, right, bias, t, sent)
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


# Query heads, key and value heads, ranks.
HEADS = ((8, 8, 4), (8, 4, 4), (8, 2, 2), (8, 2, 4), (16, 2, 8), (8, 1, 4), (32, 8, 16), (8, 2, 1))


@checker("share_kv_heads(rank, t, heads, kv_heads)")
def check_share_kv_heads(share_kv_heads):
    """Check which key and value heads a rank needs in grouped-query attention, and who else does.

    Parameters
    ----------
    share_kv_heads : callable
        ``share_kv_heads(rank, t, heads, kv_heads)``: the key and value heads that the query heads
        of `rank` use, a list, and the ranks, its own among them, that use the first of these: with
        them it sums their gradients. Query head i uses head ``i * kv_heads // heads``.

    Raises
    ------
    AssertionError
        If they are others; the message names the usual mistakes.
    """
    for heads, kv_heads, t in HEADS:
        for rank in range(t):
            right = kv_shares(rank, t, heads, kv_heads)
            where = f"rank {rank} of {t}, {heads} heads, {kv_heads} for keys and values"
            given = share_kv_heads.at(where)
            pair = given.items(given(rank, t, heads, kv_heads), 2)
            what = "a number in what share_kv_heads returns"
            got = [[whole_number(i, f"{where}: {what}") for i in given.items(p)] for p in pair]
            if got[0] != right[0]:
                hint = explain_kv(got[0], right[0], rank, t, kv_heads)
                raise AssertionError(f"{where}: it needs {right[0]}, not {got[0]}. {hint}")
            if sorted(got[1]) != right[1]:
                hint = explain_sharers(got[1], right[1], t)
                raise AssertionError(f"{where}: {right[1]} share it, not {got[1]}. {hint}")
    print("share_kv_heads: passed")


@checker("smooth_loss(logits, targets, eps)")
def check_smooth_loss(smooth_loss):
    """Check cross entropy with label smoothing on logits that are split by vocabulary.

    Parameters
    ----------
    smooth_loss : callable
        ``smooth_loss(logits, targets, eps)``, called on every rank with its columns of the logits
        and the targets of all tokens; returning the mean over the tokens of
        ``(1 - eps) (-log p[target]) + eps mean_v(-log p[v])``.

    Raises
    ------
    AssertionError
        If the loss is another one, or if logits are sent.
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

            results, spans = on_ranks(given, run, t)
            for got in results:
                got = number(got, f"{where}: what smooth_loss returns")
                if not math.isclose(got, right, rel_tol=1e-9):
                    hint = explain_loss(got, right, logits, targets, t, eps)
                    raise AssertionError(f"{where}: it is {right:.6g}, not {got:.6g}. {hint}")
            _refuse_large(where, spans)
    print("smooth_loss: passed")


def _refuse_large(where, spans):
    most = max((span.bytes for span in spans), default=0)
    assert most <= 4 * 8 * TOKENS, (
        f"{where}: the loss is right, but it sends {most} bytes at once. Send a few numbers for "
        "each token (the maximum, sums), never the logits"
    )


@checker("gradient_norm(gradients, is_split)")
def check_gradient_norm(gradient_norm):
    """Check the norm of all gradients, of which some are split and others replicated.

    Parameters
    ----------
    gradient_norm : callable
        ``gradient_norm(gradients, is_split)``, called on every rank with lists: its gradients, and
        for each one whether it is this rank's part of a larger one (else every rank has the same);
        returning the norm of the whole model's gradient.

    Raises
    ------
    AssertionError
        If it is another norm; the message names the usual mistakes.
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
                    f"{explain_norm(got, split, copies, t)}"
                )
    print("gradient_norm: passed")


@checker("largest_degree(h, B_node, B_network, F, gpus_per_node, efficiency)")
def check_largest_degree(largest_degree):
    """Check a function that finds how many GPUs a layer is worth splitting over.

    Parameters
    ----------
    largest_degree : callable
        ``largest_degree(h, B_node, B_network, F, gpus_per_node, efficiency)``: the largest power of
        two t for which S(t) / t is at least `efficiency`; the bus bandwidth is `B_node` as long as
        the ranks fit on a node, and `B_network` beyond.

    Raises
    ------
    AssertionError
        If it finds another one; the message names the usual mistakes.
    """
    for machine in MACHINES:
        names = ("h", "B_node", "B_network", "F", "gpus_per_node", "efficiency")
        where = ", ".join(f"{n} = {v:g}" for n, v in zip(names, machine, strict=True))
        right = degree(*machine)
        got = whole_number(largest_degree.at(where)(*machine), f"{where}: what it returns")
        if got != right:
            raise AssertionError(
                f"{where}: it is {right}, not {got}. {explain_degree(got, machine)}"
            )
    print("largest_degree: passed")


@checker("dropout_seed(seed, dp, tp, t, is_split)")
def check_dropout_seed(dropout_seed):
    """Check the seeds of the random generators of all ranks.

    Parameters
    ----------
    dropout_seed : callable
        ``dropout_seed(seed, dp, tp, t, is_split)``: the seed of a generator of rank `tp` (of `t`)
        in replica `dp`, for tensors that are split over the ranks of a replica, or for tensors
        that all of them hold.

    Raises
    ------
    AssertionError
        If two generators draw the same numbers that must not, or others that must be the same.
    """
    for t, seed in ((2, 0), (4, 0), (4, 17), (1, 0)):
        where = f"t = {t}, seed = {seed}"
        seeds = {
            (dp, tp, is_split): whole_number(
                dropout_seed.at(where)(seed, dp, tp, t, is_split), f"{where}: the seed"
            )
            for dp in range(3)
            for tp in range(t)
            for is_split in (False, True)
        }
        hint = explain_seeds(seeds)
        assert not hint, f"{where}: {hint}"
    first, other = (dropout_seed.at("two runs")(seed, 0, 0, 2, True) for seed in (0, 1000))
    assert first != other, "All runs draw the same numbers, whatever `seed` is"
    print("dropout_seed: passed")


@checker("norm_gradients(x, weight, gradient)")
def check_norm_gradients(norm_gradients):
    """Check the gradients of a norm of which each rank sees a part of the tokens.

    Parameters
    ----------
    norm_gradients : callable
        ``norm_gradients(x, weight, gradient)``, called on every rank with its tokens, the whole
        weight and the gradient by its part of the output of ``rms_norm``; returning the gradients
        by `x` and by `weight`.

    Raises
    ------
    AssertionError
        If a gradient is another one; the message names the usual mistakes.
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
                got = tensor(got, f"{where}: the gradient by `{name}`", wanted.shape)
                if differ(got, wanted):
                    hint = explain_norm_gradient(got, wanted, name, t)
                    raise AssertionError(f"{where}: the gradient by `{name}` is wrong. {hint}")
    print("norm_gradients: passed")
