"""Checkers for the exercises of the chapter on collectives."""

import math

import torch
import torch.distributed as dist

from d2lmini import sim
from d2lmini.checks._results import describe, number
from d2lmini.checks._solution import checker


@checker("reduce_scatter(chunks)")
def check_reduce_scatter(reduce_scatter):
    """Check a reduce-scatter that is built from sends.

    Parameters
    ----------
    reduce_scatter : callable
        ``reduce_scatter(chunks)``, called on every rank of a job: n tensors of one size, where n is
        the number of ranks; returning on rank r the sum of all ranks' chunks r. It may write into
        the chunks.

    Raises
    ------
    AssertionError
        If a rank has something else, ranks wait for each other for ever, or more travels than
        need be; the message names the usual mistakes.
    """
    for n in (2, 3, 4):
        where = f"{n} ranks"
        solution = reduce_scatter.at(where)

        def program(rank, n=n, solution=solution):
            dist.init_process_group()
            gpu = torch.accelerator.current_accelerator()
            chunks = [_chunk(rank, j).to(gpu) for j in range(n)]
            got = solution.function(chunks)
            if not isinstance(got, torch.Tensor):
                solution.fail(f"returned {describe(got)}; a tensor is needed")
            return got.cpu()

        with solution.running():
            results = sim.spawn(program, nprocs=n)
        for rank, got in enumerate(results):
            _check_part(f"{where}: rank {rank}", got, rank, n)
        _check_traffic(where, n)
    print("reduce_scatter: passed")


def _chunk(rank, j):
    return (rank + 1) * 10.0**j * torch.tensor([1.0, 2.0])


def _check_part(where, got, rank, n):
    sums = [sum(_chunk(r, j) for r in range(n)) for j in range(n)]
    if got.shape == sums[rank].shape and torch.equal(got, sums[rank]):
        return
    hint = "add up chunk r of all ranks on rank r"
    if got.numel() == n * sums[rank].numel():
        hint = "those are all chunks: return the rank's own one alone"
    elif got.shape != sums[rank].shape:
        hint = f"it has the shape {tuple(got.shape)}, a chunk {tuple(sums[rank].shape)}"
    elif torch.equal(got, _chunk(rank, rank)):
        hint = "that is its own chunk alone; add what the other ranks have"
    elif torch.allclose(got, sums[rank] / n):
        hint = "that is the mean; return the sum"
    else:
        for j, whole in enumerate(sums):
            if torch.equal(got, whole):
                hint = f"that is the sum of chunk {j}: begin with the chunk before"
    raise AssertionError(f"{where} has {got.tolist()}, not {sums[rank].tolist()}; {hint}")


def _check_traffic(where, n):
    """Refuse collectives, and more than n - 1 chunks sent by a rank."""
    spans = [span for span in sim.trace() if span.engine == "comm"]
    others = {span.collective for span in spans} - {"send"}
    assert not others, f"{where}: it calls {', '.join(sorted(others))}; use isend and irecv"
    nbytes = sum(span.bytes for span in spans) / 2  # a message is on both ends
    least = n * (n - 1) * _chunk(0, 0).nbytes
    assert nbytes <= least, (
        f"{where}: {nbytes / least:.3g} times as many bytes are sent as need be; a rank sends "
        "one chunk a step, n - 1 of them in all"
    )


NODES = (
    [0, 1, 0, 1, 0, 1, 0, 1],
    [0, 0, 1, 1],
    [1, 0, 0, 1, 1, 0],
    [2, 0, 1, 0, 2, 1],
    [0, 0, 0],
)


@checker("ring_order(nodes)")
def check_ring_order(ring_order):
    """Check a function that orders ranks in a ring, so that few messages leave a node.

    Parameters
    ----------
    ring_order : callable
        ``ring_order(nodes)``: the node of each rank; returning the ranks in the order of the ring,
        each once. The last sends to the first.

    Raises
    ------
    AssertionError
        If it is not a ring of all ranks, or more of its edges than need be join two nodes.
    """
    for nodes in NODES:
        where = f"nodes {nodes}"
        given = ring_order.at(where)
        what = f"{where}: a rank in what ring_order returns"
        order = [number(rank, what) for rank in given.items(given(list(nodes)))]
        if sorted(order) != list(range(len(nodes))):
            hint = "return ranks, not nodes" if sorted(order) == sorted(nodes) else "name each once"
            raise AssertionError(
                f"{where}: {order} are not the ranks 0 to {len(nodes) - 1}; {hint}"
            )
        crossing = _crossings(nodes, order)
        least = len(set(nodes)) if len(set(nodes)) > 1 else 0
        assert crossing == least, (
            f"{where}: in {order}, {crossing} messages of a step leave a node, and {least} would "
            "do; let the ranks of a node follow each other"
        )
    print("ring_order: passed")


def _crossings(nodes, order):
    following = [*order[1:], *order[:1]]
    return sum(nodes[a] != nodes[b] for a, b in zip(order, following, strict=True))


# Latency, bytes/s, and the share of the plateau that is wanted.
WIRES = ((20e-6, 10e9, 0.8), (100e-6, 200e9, 0.8), (1e-3, 1e9, 0.5), (0.0, 1e9, 0.9))
BUCKETS = tuple(parts * 2**i for i in range(10, 28) for parts in (7, 8))


@checker("bucket_size(seconds, sizes, share)")
def check_bucket_size(bucket_size):
    """Check a function that finds the smallest bucket with which a wire is well used.

    Parameters
    ----------
    bucket_size : callable
        ``bucket_size(seconds, sizes, share)``: ``seconds(nbytes)`` is how long a sum takes; the
        smallest of `sizes` whose bytes per second are at least `share` of those of the largest.

    Raises
    ------
    AssertionError
        If it is another size; the message names the usual mistakes.
    """
    for latency, bandwidth, share in WIRES:

        def seconds(nbytes, latency=latency, bandwidth=bandwidth):
            return latency + nbytes / bandwidth

        for sizes in (BUCKETS, BUCKETS[::-1]):
            where = f"latency {latency * 1e6:g} µs, {bandwidth / 1e9:g} GB/s, {share:.0%}"
            got = bucket_size.at(where)(seconds, list(sizes), share)
            got = number(got, f"{where}: what bucket_size returns")
            right = smallest_bucket(seconds, sizes, share)
            if got != right:
                hint = _explain_bucket(seconds, sizes, share, got)
                raise AssertionError(f"{where}: it is {right}, not {got}; {hint}")
    print("bucket_size: passed")


def smallest_bucket(seconds, sizes, share):
    """Return the right answer; see `check_bucket_size`."""
    plateau = max(sizes) / seconds(max(sizes))
    return min(size for size in sizes if size / seconds(size) >= share * plateau)


def _explain_bucket(seconds, sizes, share, got):
    longest = seconds(max(sizes))
    if got == min((s for s in sizes if seconds(s) >= share * longest), default=None):
        return "compare bytes per second, not seconds"
    if got == max(sizes):
        return "the largest reaches the plateau itself; a smaller one is enough"
    if got not in sizes:
        return "return one of the sizes"
    if got / seconds(got) >= share * max(sizes) / longest:
        return "that is enough, but a smaller one is, too"
    return f"with that only {got / seconds(got) * longest / max(sizes):.0%} are reached"


PUBLISHED = (
    ("all_reduce", 8, 2**30, 229.04),
    ("all_gather", 8, 2**34, 361.4),
    ("reduce_scatter", 4, 10**9, 300.0),
    ("broadcast", 8, 10**8, 200.0),
    ("all_reduce", 2, 10**8, 100.0),
)


@checker("seconds_of(collective, n, nbytes, busbw)")
def check_seconds_of(seconds_of):
    """Check a function that turns a published bus bandwidth back into a time.

    Parameters
    ----------
    seconds_of : callable
        ``seconds_of(collective, n, nbytes, busbw)``: ``"all_reduce"``, ``"all_gather"``,
        ``"reduce_scatter"`` or ``"broadcast"``, how many GPUs, the size as nccl-tests counts, and
        its ``busbw`` in GB/s; returning seconds.

    Raises
    ------
    AssertionError
        If it is another time; the message names the usual mistakes.
    """
    for collective, n, nbytes, busbw in PUBLISHED:
        where = f"{collective} of {nbytes} bytes on {n} GPUs, {busbw} GB/s"
        got = seconds_of.at(where)(collective, n, nbytes, busbw)
        got = number(got, f"{where}: what seconds_of returns")
        plain = nbytes / busbw / 1e9
        factor = _factor(collective, n)
        if not math.isclose(got, factor * plain, rel_tol=1e-6):
            hint = _explain_seconds(got / plain, factor, n)
            raise AssertionError(f"{where}: {factor * plain:.6g} s, not {got:.6g}; {hint}")
    print("seconds_of: passed")


def _factor(collective, n):
    if collective == "broadcast":
        return 1.0
    return (2 if collective == "all_reduce" else 1) * (n - 1) / n


def _explain_seconds(got, factor, n):
    share = (n - 1) / n
    for value, hint in (
        (factor * 1e9 / 2**30, "a GB is 10**9 bytes, a GiB 2**30; nccl-tests prints GB/s"),
        (factor * 1e9, "busbw is in GB/s: multiply it by 10**9"),
        (factor * 1e3, "that is in milliseconds; return seconds"),
        (factor * 1e6, "that is in microseconds; return seconds"),
        (1.0, "that takes busbw for algbw, size over time; undo the factor"),
        (1 / factor, "busbw = factor * size / seconds: multiply by the factor, not divide"),
        (2 * share, "the factor 2 (n - 1) / n is that of an all-reduce, which goes round twice"),
        (share, "that factor is (n - 1) / n, of an all-gather or a reduce-scatter"),
    ):
        if math.isclose(got, value, rel_tol=1e-6):
            return hint
    return "busbw is size / seconds times a factor that depends on the collective"
