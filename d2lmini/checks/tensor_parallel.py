"""Checkers for the exercises of the chapter on tensor parallelism.

Where a solution is a program of ranks, it runs on simulated GPUs, and what it has sent is counted.
"""

import math

import torch
import torch.distributed as dist
from torch.nn import functional

from d2lmini import sim
from d2lmini.checks._results import number, tensor, whole_number
from d2lmini.checks._solution import checker
from d2lmini.checks._tensor_answers import (
    degree,
    explain_degree,
    explain_kv,
    explain_norm,
    explain_sharers,
    kv_shares,
)
from d2lmini.timeline import Timeline

DEGREES = (1, 2, 4)
TOKENS, HIDDEN, WIDTH, WORDS = 5, 8, 12, 16


def _draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _on_ranks(solution, function, t):
    """Run ``function(rank, device)`` on t ranks; return the results, and what rank 0 has sent."""

    def program(rank):
        dist.init_process_group()
        result = function(rank, torch.accelerator.current_accelerator())
        return result.detach().cpu() if isinstance(result, torch.Tensor) else result

    with solution.running():  # which ends what does not end
        results = sim.spawn(program, nprocs=t, gpu="a100", link="nvlink3")
    return results, Timeline(sim.trace()).lanes().get(("rank 0 sim:0", "comm"), [])


def _differ(got, right):
    return not torch.allclose(got, right, rtol=0, atol=1e-9)


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
    x, gate_up = _draw(TOKENS, HIDDEN), _draw(2 * WIDTH, HIDDEN, seed=1)
    down, bias = _draw(HIDDEN, WIDTH, seed=2), _draw(HIDDEN, seed=3)
    gate, up = functional.linear(x, gate_up).chunk(2, -1)
    right = functional.linear(functional.silu(gate) * up, down, bias)
    for t in DEGREES:
        where = f"on {t} rank{'s' * (t > 1)}"
        given = gated_mlp.at(where)

        def run(rank, device, given=given):
            return given(*(part.to(device) for part in (x, gate_up, down, bias)))

        results, spans = _on_ranks(given, run, t)
        sent = [span.name for span in spans]
        for got in results:
            got = tensor(got, f"{where}: what gated_mlp returns", right.shape)
            if _differ(got, right):
                hint = _explain_mlp(got, right, bias, t, sent)
                raise AssertionError(f"{where}: the result is wrong. {hint}")
        if t > 1 and sent != ["all_reduce"]:
            raise AssertionError(
                f"{where}: the result is right, but it sends {_list(sent)}; one all_reduce of the "
                "result is enough: each rank multiplies its part of the gate with the same part "
                "of the other factor, and with its columns of `down`"
            )
    print("gated_mlp: passed")


def _explain_mlp(got, right, bias, t, sent):
    if not _differ(got - right, ((t - 1) * bias).expand_as(right)):
        return f"The bias was added {t} times: add it once, after the sum"
    if not _differ(got - right, -bias.expand_as(right)):
        return "The bias is missing"
    if t > 1 and "all_reduce" not in sent:
        return "No rank has summed the parts: dist.all_reduce(result)"
    if t > 1:
        return (
            "Does each rank take its rows of the gate and the same rows of the other factor? "
            "gate_up.chunk(t) gives some ranks rows of the gate only: take it apart first"
        )
    return "On one rank it is (silu(gate) * up) times down, plus the bias"


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
        logits = scale * _draw(TOKENS, WORDS, seed=4)
        right = functional.cross_entropy(logits, targets, label_smoothing=eps).item()
        for t in DEGREES:
            where = f"on {t} rank{'s' * (t > 1)}, logits of about {scale}, eps = {eps}"
            given = smooth_loss.at(where)

            def run(rank, device, t=t, logits=logits, eps=eps, given=given):
                own = logits.chunk(t, 1)[rank].contiguous()
                return given(own.to(device), targets.to(device), eps)

            results, spans = _on_ranks(given, run, t)
            for got in results:
                got = number(got, f"{where}: what smooth_loss returns")
                if not math.isclose(got, right, rel_tol=1e-9):
                    hint = _explain_loss(got, right, logits, targets, t, eps)
                    raise AssertionError(f"{where}: it is {right:.6g}, not {got:.6g}. {hint}")
            _refuse_large(where, spans)
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
            "It is off by log t: a sum over the vocabulary that is whole already on every rank was "
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
        whole = [_draw(*shape, seed=i) for i, shape in enumerate(shapes)]
        split = sum(g.square().sum().item() for g in whole[::2])
        copies = sum(g.square().sum().item() for g in whole[1::2])
        where = f"on {t} rank{'s' * (t > 1)}"
        given = gradient_norm.at(where)

        def run(rank, device, t=t, whole=whole, given=given):
            parts = [g.chunk(t)[rank] if cut else g for g, cut in zip(whole, is_split, strict=True)]
            return given([p.to(device) for p in parts], list(is_split))

        for got in _on_ranks(given, run, t)[0]:
            got = number(got, f"{where}: what gradient_norm returns")
            right = math.sqrt(split + copies)
            if not math.isclose(got, right, rel_tol=1e-9):
                raise AssertionError(
                    f"{where}: it is {right:.6g}, not {got:.6g}. "
                    f"{explain_norm(got, split, copies, t)}"
                )
    print("gradient_norm: passed")


# Features, bytes/s in a node and between nodes, FLOP/s, GPUs of a node, wanted efficiency.
MACHINES = (
    (4096, 200e9, 200e9, 150e12, 8, 0.72),
    (4096, 200e9, 20e9, 150e12, 8, 0.5),
    (4096, 200e9, 20e9, 150e12, 8, 0.8),
    (8192, 200e9, 20e9, 150e12, 8, 0.8),
    (16384, 200e9, 100e9, 150e12, 8, 0.5),
    (1024, 20e9, 10e9, 300e12, 8, 0.9),
    (12288, 400e9, 50e9, 600e12, 8, 0.7),
    (5000, 100e9, 20e9, 450e12, 8, 5 / 6),
)


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
