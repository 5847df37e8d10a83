"""Right answers of exercises on tensor parallelism, and the mistakes behind wrong ones."""

import math

from torch.nn import functional

from d2lmini.checks._tensor_ranks import differ

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


def kv_shares(rank, t, heads, kv_heads):
    """Return the right answer; see `check_share_kv_heads`."""

    def needed(rank):
        own = range(rank * heads // t, (rank + 1) * heads // t)
        return sorted({i * kv_heads // heads for i in own})

    mine = needed(rank)
    return [mine, [other for other in range(t) if mine[0] in needed(other)]]


def explain_kv(got, right, rank, t, kv_heads):
    if not got:
        return "There are fewer of them than ranks: several ranks keep a copy of the same one"
    if got == [rank % kv_heads] and len(right) == 1:
        return "Ranks next to each other have query heads of one group; they share its head"
    if len(got) == kv_heads:
        return "That is all of them: keep those that the rank's own query heads use"
    return f"Begin with its query heads, one {t}th of all, and see which heads those use"


def explain_sharers(got, right, t):
    if len(right) == 1:
        return "No other rank uses it, so there is nothing to sum"
    if len(got) == 1:
        return "Each copy sees a part of the query heads only: its gradient is a part of the sum"
    if len(got) == t:
        return "Other ranks have other heads; summed over all, gradients of different heads mix"
    return "Go through the ranks, and see which ones use the same head"


def degree(h, inside, across, flops, gpus_per_node, efficiency, factor=4.5):
    """Return the right answer; see `check_largest_degree`."""

    def pays(t):
        r = factor * h * (inside if t <= gpus_per_node else across) / flops
        return 1 / (1 + (t - 1) / r) >= efficiency * (1 - 1e-12)

    return max(t for t in (2**i for i in range(20)) if pays(t))


def explain_degree(got, machine):
    h, inside, across, flops, size, efficiency = machine
    if got < 1 or got & (got - 1):
        return "Give a power of two, 1 at least"
    if got == degree(*machine, factor=3):
        return "3 is the factor of the forward pass; for both passes it is 9/2"
    if got == degree(h, inside, inside, flops, size, efficiency):
        return f"Beyond {size} GPUs the network carries the sums"
    if got == degree(h, across, across, flops, size, efficiency):
        return f"Up to {size} GPUs the sums stay in the node"
    return "S(t) / t = 1 / (1 + (t - 1) / r), with r = 9/2 h B / F"


def explain_norm(got, split, copies, t):
    if math.isclose(got, math.sqrt(split + t * copies), rel_tol=1e-9):
        return f"Replicated gradients are counted {t} times: sum over ranks only what is split"
    if math.isclose(got, split + copies, rel_tol=1e-9):
        return "That is its square"
    if math.isclose(got, math.sqrt(split), rel_tol=1e-9):
        return "The replicated gradients are missing"
    return "Add squares, not norms: those of the parts over all ranks, then those of the copies"


def explain_mlp(got, right, bias, t, sent):
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


def explain_loss(got, right, logits, targets, t, eps):
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


def explain_seeds(seeds):
    """Say what is wrong with the seeds of (replica, rank, is split), if anything is."""
    for (dp, tp, is_split), seed in seeds.items():
        if not is_split and seed != seeds[dp, 0, False]:
            return (
                f"ranks 0 and {tp} of replica {dp} hold the same tensor, but drop different "
                "numbers, and go on with different activations: where a tensor is replicated, all "
                "ranks of a replica need the same seed"
            )
    drawn = {}
    for (dp, tp, is_split), seed in seeds.items():
        group = (dp, tp, True) if is_split else (dp, 0, False)
        before = drawn.setdefault(seed, group)
        if before != group:
            return _explain_same(before, group)
    return ""


def _explain_same(one, two):
    (dp, tp, is_split), (other_dp, other_tp, other_is_split) = one, two
    if dp == other_dp and is_split and other_is_split:
        return (
            f"ranks {tp} and {other_tp} of replica {dp} have different parts of a tensor, but drop "
            "the same numbers: where a tensor is split, each rank needs a seed of its own"
        )
    if dp == other_dp:
        return (
            f"in replica {dp}, both kinds of generators have the same seed: what is dropped of a "
            "split tensor repeats what is dropped of a replicated one"
        )
    if (tp, is_split) == (other_tp, other_is_split):
        return f"replicas {dp} and {other_dp} have different texts, but drop the same numbers"
    return (
        f"two generators of replicas {dp} and {other_dp} have the same seed: leave each replica "
        "room for all its generators, 1 + t of them"
    )


def explain_norm_gradient(got, right, name, t):
    if name == "x":
        return "It is the gradient by this rank's own tokens; nothing has to be sent for it"
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
