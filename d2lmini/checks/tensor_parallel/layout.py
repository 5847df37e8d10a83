"""Checkers of what each rank has: key and value heads, a part of a layer, a seed."""

from d2lmini.checks.shared.results import whole_number
from d2lmini.checks.shared.solution import checker

# Query heads, key and value heads, ranks.
HEADS = ((8, 8, 4), (8, 4, 4), (8, 2, 2), (8, 2, 4), (16, 2, 8), (8, 1, 4), (32, 8, 16), (8, 2, 1))


@checker("share_kv_heads(rank, t, heads, kv_heads)")
def check_share_kv_heads(share_kv_heads):
    """Check which key and value heads a rank needs in grouped-query attention, and who shares them.

    Parameters
    ----------
    share_kv_heads : callable
        ``share_kv_heads(rank, t, heads, kv_heads)``, returning the list of the key and value heads
        that the query heads of `rank` use, and the list of the ranks, including its own, that use
        the first of these and so sum its gradients. Query head i uses head
        ``i * kv_heads // heads``.

    Raises
    ------
    AssertionError
        If it returns others; the message names the usual mistakes.
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
                hint = _explain_kv(got[0], right[0], rank, t, kv_heads)
                raise AssertionError(f"{where}: it needs {right[0]}, not {got[0]}. {hint}")
            if sorted(got[1]) != right[1]:
                hint = _explain_sharers(got[1], right[1], t)
                raise AssertionError(f"{where}: {right[1]} share it, not {got[1]}. {hint}")
    print("share_kv_heads: passed")


def kv_shares(rank, t, heads, kv_heads):
    """Return the right answer; see `check_share_kv_heads`."""

    def needed(rank):
        own = range(rank * heads // t, (rank + 1) * heads // t)
        return sorted({i * kv_heads // heads for i in own})

    mine = needed(rank)
    return [mine, [other for other in range(t) if mine[0] in needed(other)]]


def _explain_kv(got, right, rank, t, kv_heads):
    if not got:
        return "There are fewer of them than ranks: several ranks keep a copy of the same one"
    if got == [rank % kv_heads] and len(right) == 1:
        return "Ranks next to each other have query heads of one group; they share its head"
    if len(got) == kv_heads:
        return "That is all of them: keep those that the rank's own query heads use"
    return f"Begin with its query heads, one {t}th of all, and see which heads those use"


def _explain_sharers(got, right, t):
    if len(right) == 1:
        return "No other rank uses it, so there is nothing to sum"
    if len(got) == 1:
        return "Each copy sees a part of the query heads only: its gradient is a part of the sum"
    if len(got) == t:
        return "Other ranks have other heads; summed over all, gradients of different heads mix"
    return "Go through the ranks, and see which ones use the same head"


@checker("dropout_seed(seed, dp, tp, t, is_split)")
def check_dropout_seed(dropout_seed):
    """Check the seeds of the random generators of all ranks.

    Parameters
    ----------
    dropout_seed : callable
        ``dropout_seed(seed, dp, tp, t, is_split)``, returning the seed of a generator of rank `tp`
        (of `t`) in replica `dp`, for tensors that are split over the ranks of a replica, or for
        tensors that all of them hold.

    Raises
    ------
    AssertionError
        If two generators wrongly draw the same numbers, or wrongly draw different ones.
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
        hint = _explain_seeds(seeds)
        assert not hint, f"{where}: {hint}"
    first, other = (dropout_seed.at("two runs")(seed, 0, 0, 2, True) for seed in (0, 1000))
    assert first != other, "All runs draw the same numbers, whatever `seed` is"
    print("dropout_seed: passed")


def _explain_seeds(seeds):
    """Return what is wrong with the seeds of (replica, rank, is split), or ""."""
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
