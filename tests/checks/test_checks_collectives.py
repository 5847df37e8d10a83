"""The checkers of the chapter on collectives accept right solutions and name what is wrong."""

import torch
import torch.distributed as dist
from support.samples.solutions import make_tests, refuses, returns_nothing

from d2lmini.checks import collectives as checks
from d2lmini.checks.collectives import averages

RIGHT, WRONG = {}, {}


def together(outgoing, incoming):
    """Send and receive pairs of a tensor and a peer in one batch; return its works."""
    operations = [dist.P2POp(dist.isend, x, peer) for x, peer in outgoing]
    operations += [dist.P2POp(dist.irecv, x, peer) for x, peer in incoming]
    return dist.batch_isend_irecv(operations)


def reduce_scatter(chunks, shift=0, scale=1, wait=True):
    n, rank = dist.get_world_size(), dist.get_rank()
    for step in range(n - 1):
        mine, theirs = ((rank - step - i - shift) % n for i in (1, 2))
        arrived = torch.empty_like(chunks[theirs])
        works = together([(chunks[mine], (rank + 1) % n)], [(arrived, (rank - 1) % n)])
        if wait:
            works[-1].wait()
        chunks[theirs] = chunks[theirs] + arrived
        for work in works:
            work.wait()
    return scale * chunks[(rank - shift) % n]


def by_the_library(chunks):
    out = torch.empty_like(chunks[0])
    dist.reduce_scatter(out, chunks)
    return out


def by_blocking_sends(chunks):
    n, rank = dist.get_world_size(), dist.get_rank()
    arrived = torch.empty_like(chunks[0])
    dist.send(chunks[rank], (rank + 1) % n)
    dist.recv(arrived, (rank - 1) % n)
    return arrived


def everything_to_everybody(chunks):
    n, rank = dist.get_world_size(), dist.get_rank()
    total = torch.stack(chunks)
    others = [peer for peer in range(n) if peer != rank]
    mine, arrived = total.clone(), [torch.empty_like(total) for _ in others]
    for work in together([(mine, peer) for peer in others], zip(arrived, others, strict=True)):
        work.wait()
    return (total + sum(arrived))[rank]


def reusing_what_is_sent(chunks):
    n, rank = dist.get_world_size(), dist.get_rank()
    arrived = torch.empty_like(chunks[0])
    sending = dist.isend(chunks[rank], (rank + 1) % n)
    chunks[rank].zero_()
    sending.wait()
    dist.recv(arrived, (rank - 1) % n)
    return arrived


def in_two_orders(chunks):
    rank = dist.get_rank()
    if rank == 0:
        dist.barrier()
    dist.all_reduce(chunks[rank])
    return chunks[rank]


def by_direct_messages(chunks):
    n, rank = dist.get_world_size(), dist.get_rank()
    others = [peer for peer in range(n) if peer != rank]
    arrived = [torch.empty_like(chunks[rank]) for _ in others]
    outgoing = [(chunks[peer], peer) for peer in others]
    for work in together(outgoing, zip(arrived, others, strict=True)):
        work.wait()
    return chunks[rank] + sum(arrived)


def by_crossing_messages(chunks):
    n, rank = dist.get_world_size(), dist.get_rank()
    arrived = torch.empty_like(chunks[0])
    sending = dist.isend(chunks[rank - 1], (rank + 1) % n)
    dist.irecv(arrived, (rank - 1) % n).wait()
    sending.wait()
    return chunks[rank] + arrived


RIGHT["reduce_scatter"] = reduce_scatter, by_direct_messages
WRONG["reduce_scatter"] = {
    "that is the sum of chunk 1": lambda chunks: reduce_scatter(chunks, shift=1),
    "that is the mean": lambda chunks: reduce_scatter(chunks, scale=1 / len(chunks)),
    "its own chunk alone": lambda chunks: chunks[dist.get_rank()],
    "return the rank's own one alone": lambda chunks: torch.cat(chunks),
    "call wait": lambda chunks: reduce_scatter(chunks, wait=False),
    "deadlock": by_blocking_sends,
    "in one dist.batch_isend_irecv": by_crossing_messages,
    "changes a tensor that is still read by send": reusing_what_is_sent,
    "the same calls in the same order": in_two_orders,
    "use batch_isend_irecv": by_the_library,
    "times as many bytes": everything_to_everybody,
    "a tensor is needed": lambda chunks: None,
}


def ring_order(nodes):
    return sorted(range(len(nodes)), key=nodes.__getitem__, reverse=True)


RIGHT["ring_order"] = ring_order
WRONG["ring_order"] = {
    "let the ranks of a node follow each other": lambda nodes: list(range(len(nodes))),
    "return ranks, not nodes": sorted,
    "name each once": lambda nodes: [0] * len(nodes),
    "a list is needed": returns_nothing,
}


def bucket_size(seconds, sizes, share):
    best = max(size / seconds(size) for size in sizes)
    return next(s for s in sorted(sizes) if s / seconds(s) >= share * best)


RIGHT["bucket_size"] = bucket_size
WRONG["bucket_size"] = {
    "compare bytes per second": lambda seconds, sizes, share: min(
        s for s in sizes if seconds(s) >= share * seconds(max(sizes))
    ),
    "the largest reaches the plateau": lambda seconds, sizes, share: max(sizes),
    "a smaller one is, too": lambda *given: 2 * bucket_size(*given),
    "that reaches only": lambda *given: bucket_size(*given) // 2,
    "one of the sizes": lambda *given: bucket_size(*given) + 1,
    "must be a number": returns_nothing,
}


def average(gradients, names=sorted, wait=True, divide=1):
    works = [dist.all_reduce(gradients[name], async_op=True) for name in names(gradients)]
    if wait:
        for work in works:
            work.wait()
    for gradient in gradients.values():
        gradient /= dist.get_world_size() ** divide
    for work in works:
        work.wait()


def average_copies(gradients):
    for name in sorted(gradients):
        total = gradients[name].clone()
        dist.all_reduce(total)


def average_of_equal_lengths(gradients):
    in_own_order = len({gradient.numel() for gradient in gradients.values()}) == 1
    average(gradients, list if in_own_order else sorted)


def divide_first(gradients):
    for name in sorted(gradients, reverse=True):
        gradients[name] /= dist.get_world_size()
        dist.all_reduce(gradients[name])
    return gradients


RIGHT["average"] = average, divide_first
WRONG["average"] = {
    "that is the sum; divide": lambda gradients: average(gradients, divide=0),
    "divided by the number of ranks twice": lambda gradients: average(gradients, divide=2),
    "call wait": lambda gradients: average(gradients, wait=False),
    "gradients of different names were added": lambda gradients: average(gradients, list),
    "in the same order, such as": average_of_equal_lengths,
    "it must be the sum": lambda gradients: average(gradients, divide=3),
    "write the mean into the tensor itself": average_copies,
    "changed `gradients`: it has 0 instead of 3": lambda gradients: gradients.clear(),
    "average in place": lambda gradients: list(gradients.values()),
}


def test_average_names_a_call_that_others_make_with_another_size(monkeypatch):
    monkeypatch.setattr(averages, "LENGTHS", averages.LENGTHS[::-1])
    refuses(checks.check_average, lambda gradients: average(gradients, list), "the same order")


def validation_loss(losses):
    sums = losses.new_tensor([losses.sum(), len(losses)])
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()


def reduced_and_sent(losses):
    sums = losses.new_tensor([losses.sum(), len(losses)])
    dist.reduce(sums, dst=0)
    dist.broadcast(sums, src=0)
    return sums[0] / sums[1]


def reduced_to_one(losses):
    sums = losses.new_tensor([losses.sum(), len(losses)])
    dist.reduce(sums, dst=0)
    return (sums[0] / sums[1]).item()


def averaged(losses, divide=True):
    mean = losses.mean() if divide else losses.sum()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean


def summed(losses, divide=False):
    total = losses.sum()
    dist.all_reduce(total)
    return total / len(losses) if divide else total


RIGHT["validation_loss"] = validation_loss, reduced_and_sent
WRONG["validation_loss"] = {
    r"rank 1 returns .* Rank 0 has it. That is pytorch#77562": reduced_to_one,
    "the rank's own examples": lambda losses: losses.mean(),
    "the mean of the ranks' means": averaged,
    "That is the sum: divide": summed,
    "divided by the examples of one": lambda losses: summed(losses, divide=True),
    "divided by the number of ranks": lambda losses: averaged(losses, divide=False),
    "both over all ranks, and divide once": lambda losses: -1.0,
    "must be a number, but it is None": returns_nothing,
    "validation_loss raised ": lambda losses: (
        validation_loss(losses) if dist.get_rank() else losses.mean()
    ),
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
