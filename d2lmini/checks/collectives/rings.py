"""Checkers of rings: a reduce-scatter built from sends, and an order of ranks."""

import torch
import torch.distributed as dist

import simgpu as sim
from d2lmini.checks.shared.results import describe, number
from d2lmini.checks.shared.solution import checker


@checker("reduce_scatter(chunks)", may_change=["chunks"])
def check_reduce_scatter(reduce_scatter):
    """Check a reduce-scatter built from sends.

    Parameters
    ----------
    reduce_scatter : callable
        ``reduce_scatter(chunks)``, called on each of n ranks with n tensors of equal size;
        returning on rank r the sum of all ranks' chunks r. It may write into the chunks.

    Raises
    ------
    AssertionError
        If a rank has another result, the ranks deadlock, or they send more than necessary; the
        message names the usual mistakes.
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
        hint = "that is its own chunk alone; add those of the other ranks"
    elif torch.allclose(got, sums[rank] / n):
        hint = "that is the mean; return the sum"
    else:
        for j, whole in enumerate(sums):
            if torch.equal(got, whole):
                hint = f"that is the sum of chunk {j}: begin with the chunk before"
    raise AssertionError(f"{where} has {got.tolist()}, not {sums[rank].tolist()}; {hint}")


def _check_traffic(where, n):
    """Raise AssertionError if collectives are used or a rank sends more than n - 1 chunks."""
    spans = [span for span in sim.trace() if span.engine == "comm"]
    others = {span.collective for span in spans} - {"send"}
    assert not others, f"{where}: it calls {', '.join(sorted(others))}; use batch_isend_irecv"
    nbytes = sum(span.bytes for span in spans) / 2  # a message has a span on both ends
    least = n * (n - 1) * _chunk(0, 0).nbytes
    assert nbytes <= least, (
        f"{where}: {nbytes / least:.3g} times as many bytes are sent as necessary; a rank sends "
        "one chunk per step, n - 1 of them in all"
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
    """Check a function that orders ranks in a ring so that few messages leave a node.

    Parameters
    ----------
    ring_order : callable
        ``ring_order(nodes)``, where `nodes` has the node of each rank; returning all ranks in the
        order of the ring. The last sends to the first.

    Raises
    ------
    AssertionError
        If it is not a ring of all ranks, or more edges than necessary connect two nodes.
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
            f"{where}: in {order}, {crossing} messages of a step leave a node, and {least} are "
            "enough; let the ranks of a node follow each other"
        )
    print("ring_order: passed")


def _crossings(nodes, order):
    following = [*order[1:], *order[:1]]
    return sum(nodes[a] != nodes[b] for a, b in zip(order, following, strict=True))
