"""Right answers of exercises on tensor parallelism, and the mistakes behind wrong ones."""

import math


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
