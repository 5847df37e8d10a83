"""Checkers of what goes round a ring of ranks."""

import torch
from torch.nn import functional

from d2lmini.checks.shared.ranks import differ, draw, messages, on_ranks
from d2lmini.checks.shared.results import tensor
from d2lmini.checks.shared.solution import checker

RANKS = (1, 2, 4)


@checker("sum_round(k, v, use)")
def check_sum_round(sum_round):
    """Check a sum over the keys and values that go round a ring.

    Parameters
    ----------
    sum_round : callable
        ``sum_round(k, v, use)``, called on every rank with its keys and values; returning the sum
        of ``use(k, v)`` over those of all ranks.

    Raises
    ------
    AssertionError
        If a rank reads what has not arrived yet, leaves out or repeats a rank's part, or sends
        only while nothing is computed.
    """
    for ranks in RANKS:
        where = f"on {ranks} rank{'s' * (ranks > 1)}"
        keys, values = (draw(ranks, 256, 256, seed=i) for i in range(2))
        right = sum(k @ v for k, v in zip(keys, values, strict=True))
        given = sum_round.at(where)

        def run(rank, device, given=given, parts=(keys, values)):
            k, v = (x[rank].to(device) for x in parts)
            return given(k, v, torch.matmul)

        results, lanes = on_ranks(given, run, ranks)
        for rank, got in enumerate(results):
            got = tensor(got, f"{where}: what rank {rank} returns", right.shape)
            if differ(got, right):
                raise AssertionError(
                    f"{where}: the result of rank {rank} is not the sum over all ranks; "
                    "each part must be used once on each rank"
                )
        if ranks > 1:
            _check_overlap(lanes, where)
    print("sum_round: passed")


def _check_overlap(lanes, where):
    """Check that each product but the last runs while a message is under way."""
    products = [s for s in lanes["rank 0 sim:0", "compute"] if s.name in ("mm", "matmul")]
    for number, product in enumerate(products[:-1]):
        if not any(m.start < product.end and product.start < m.end for m in messages(lanes)):
            raise AssertionError(
                f"{where}: while `use` computes in step {number}, no message is under way; start "
                "the messages before `use`, and wait for them after it"
            )


@checker("pass_uneven(x, lengths, source)")
def check_pass_uneven(pass_uneven):
    """Check a step of the ring with shards of different lengths.

    Parameters
    ----------
    pass_uneven : callable
        ``pass_uneven(x, lengths, source)``, called on every rank with what it has in this step,
        the number of tokens with which each rank began, and the rank at which `x` was then;
        returning what the previous rank had.

    Raises
    ------
    AssertionError
        If the sizes of a message do not match, or something else arrives.
    """
    for lengths in ([3, 3], [750, 750, 750, 749], [2, 5, 1]):
        ranks = len(lengths)
        where = f"with shards of {'/'.join(map(str, lengths))} tokens"
        given = pass_uneven.at(where)
        parts = [draw(1, 2, n, 4, seed=i) for i, n in enumerate(lengths)]

        def run(rank, device, given=given, parts=parts, lengths=lengths):
            x, found = parts[rank].to(device), []
            for step in range(len(lengths)):
                x = given(x, list(lengths), (rank - step) % len(lengths))
                found.append(x.detach().cpu() if isinstance(x, torch.Tensor) else x)
                if not isinstance(x, torch.Tensor):
                    break
            return found

        for rank, found in enumerate(on_ranks(given, run, ranks)[0]):
            for step, got in enumerate(found):
                right = parts[(rank - step - 1) % ranks]
                what = f"{where}: what rank {rank} returns in step {step}"
                if differ(tensor(got, what, right.shape), right):
                    raise AssertionError(f"{what} is not what the previous rank had")
    print("pass_uneven: passed")


@checker("grouped_ring(q, k, v)")
def check_grouped_ring(grouped_ring):
    """Check causal ring attention in which heads of queries share heads of keys.

    Parameters
    ----------
    grouped_ring : callable
        ``grouped_ring(q, k, v)``, called on every rank with its part of a sequence whose tokens lie
        in a row; returning the output of its queries.

    Raises
    ------
    AssertionError
        If the output is not that of one GPU, or more is sent than the heads of keys and values.
    """
    heads, kv_heads, size, n = 8, 2, 4, 6
    for ranks in RANKS:
        where = f"on {ranks} rank{'s' * (ranks > 1)}"
        q, k, v = (
            draw(1, count, n * ranks, size, seed=i)
            for i, count in enumerate((heads, kv_heads, kv_heads))
        )
        right = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        given = grouped_ring.at(where)

        def run(rank, device, given=given, whole=(q, k, v), ranks=ranks):
            return given(*(x.chunk(ranks, 2)[rank].contiguous().to(device) for x in whole))

        results, lanes = on_ranks(given, run, ranks)
        for rank, got in enumerate(results):
            wanted = right.chunk(ranks, 2)[rank]
            got = tensor(got, f"{where}: what rank {rank} returns", wanted.shape)
            if differ(got, wanted):
                raise AssertionError(f"{where}: {_explain_grouped(got, q, k, v, rank, ranks)}")
        _check_bytes(lanes, 2 * kv_heads * n * size * 8 * (ranks - 1), where)
    print("grouped_ring: passed")


def _explain_grouped(got, q, k, v, rank, ranks):
    groups = q.shape[1] // k.shape[1]
    wrong = [x.repeat(1, groups, 1, 1) for x in (k, v)]
    swapped = functional.scaled_dot_product_attention(q, *wrong, is_causal=True)
    if not differ(got, swapped.chunk(ranks, 2)[rank]):
        return "head i uses head i // g of the keys, not head i % (number of heads of keys)"
    blind = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    if not differ(got, blind.chunk(ranks, 2)[rank]):
        return "the queries see later keys; attention has to be causal"
    return f"the output of rank {rank} is not that of one GPU"


def _check_bytes(lanes, right, where):
    """Check what all ranks together sent: `right` bytes for each."""
    sent = _sent(lanes)
    for rank, count in sent.items():
        if count > right:
            raise AssertionError(
                f"{where}: {rank} sends {count} bytes; its heads of keys and values, passed on in "
                f"all steps but the last, are {right}"
            )


def _sent(lanes):
    """Return the bytes that each rank sends; a lane shows what it receives, too."""
    return {
        lane: sum(span.bytes for span in spans) // 2
        for (lane, engine), spans in lanes.items()
        if engine == "comm"
    }
