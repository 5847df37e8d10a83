"""Checkers for the exercises of the chapter on collectives."""

import math

import torch
import torch.distributed as dist

import simgpu as sim
from d2lmini.checks._averages import LENGTHS, check_mean, gradient, order
from d2lmini.checks._bandwidths import (
    explain_bucket,
    explain_seconds,
    explain_share,
    factor,
    smallest_bucket,
)
from d2lmini.checks._results import describe, number
from d2lmini.checks._solution import checker


@checker("reduce_scatter(chunks)", may_change=["chunks"])
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
            got = solution(chunks)
            if not isinstance(got, torch.Tensor):
                solution.fail(f"returned {describe(got)}; a tensor is needed")
            if got.layout != torch.strided:
                solution.fail("returned a sparse tensor; a dense one is needed")
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
                hint = explain_bucket(seconds, sizes, share, got)
                raise AssertionError(f"{where}: it is {right}, not {got}; {hint}")
    print("bucket_size: passed")


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
        times = factor(collective, n)
        if not math.isclose(got, times * plain, rel_tol=1e-6):
            hint = explain_seconds(got / plain, times, n)
            raise AssertionError(f"{where}: {times * plain:.6g} s, not {got:.6g}; {hint}")
    print("seconds_of: passed")


@checker("average(gradients)", may_change=["gradients"])
def check_average(average):
    """Check a function that averages gradients over ranks, in place.

    Parameters
    ----------
    average : callable
        ``average(gradients)``, called on every rank of a job: a dict of tensors by name. Ranks have
        the same names, in orders of their own. Afterwards each tensor is the mean over the ranks.

    Raises
    ------
    AssertionError
        If a tensor is something else, or it is used while it is still under way; the message names
        the usual mistakes.
    """
    for n, lengths in ((2, LENGTHS[0]), (3, LENGTHS[0]), (3, LENGTHS[1])):
        where = f"{n} ranks"
        solution = average.at(where)

        def program(rank, lengths=lengths, solution=solution):
            dist.init_process_group()
            gpu = torch.accelerator.current_accelerator()
            gradients = {name: gradient(rank, name, lengths).to(gpu) for name in lengths}
            given = {name: gradients[name] for name in order(rank, lengths)}
            got = solution(given)
            if got is not None and not isinstance(got, dict):
                solution.fail(f"returned {describe(got)}; average in place")
            return {name: value.cpu() for name, value in gradients.items()}

        with solution.running():
            results = sim.spawn(program, nprocs=n)
        for rank, got in enumerate(results):
            for name in lengths:
                check_mean(f"{where}: rank {rank}, {name!r}", got[name], rank, name, n, lengths)
    print("average: passed")


# Algorithm, GPUs, busbw, the wire's rate as it is sold, and whether that adds up both directions.
CLAIMS = (
    ("ring", 8, 234.9, 600.0, True),
    ("in-switch", 8, 473.0, 900.0, True),
    ("in-switch", 4, 380.0, 900.0, True),
    ("tree", 16, 207.0, 200.0, False),
    ("tree", 8, 43.0, 25.0, False),
    ("ring", 32, 365.0, 400.0, False),
)


@checker("share_of_wire(algorithm, n, busbw, sold, both)")
def check_share_of_wire(share_of_wire):
    """Check a function that says how busy a wire is when nccl-tests print a bus bandwidth.

    Parameters
    ----------
    share_of_wire : callable
        ``share_of_wire(algorithm, n, busbw, sold, both)``: how an all-reduce over `n` GPUs was
        made (``"ring"``, ``"in-switch"`` or ``"tree"``, over two nodes), its ``busbw``, and the
        rate at which the wire is sold, in GB/s, for `both` directions together or for one;
        returning the share of one direction that is in use.

    Raises
    ------
    AssertionError
        If it is another share; the message names the usual mistakes.
    """
    for algorithm, n, busbw, sold, both in CLAIMS:
        ways = "both directions" if both else "one direction"
        where = f"{algorithm}, {n} GPUs, busbw {busbw} on {sold} GB/s ({ways})"
        got = share_of_wire.at(where)(algorithm, n, busbw, sold, both)
        got = number(got, f"{where}: what share_of_wire returns")
        sent = 2 * (n - 1) / n
        right = busbw / sold * (1 + both) / (1 if algorithm == "ring" else sent)
        if not math.isclose(got, right, rel_tol=1e-6):
            hint = explain_share(got / (busbw / sold), algorithm, both, sent)
            raise AssertionError(f"{where}: it is {right:.4g}, not {got:.4g}; {hint}")
    print("share_of_wire: passed")
