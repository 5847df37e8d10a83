"""Faster ways to sum gradients over devices than `d2lmini.allreduce`.

The ring is derived in ``chapters/multiple-gpus.ipynb``. ``benchmarks/cases/allreduce.py`` measures
how much faster each of them is.
"""

import torch

from d2lmini.training import allreduce


def allreduce_ring(data):
    """Sum tensors over devices, in place; each device communicates with its two neighbours only.

    Each tensor is split into k chunks. In ``k - 1`` steps the chunks are summed on their way round
    the ring, in ``k - 1`` more the sums are passed round (Patarasuk and Yuan 2009):
    ``2 * k * (k - 1)`` messages, each of 1/k of the tensor, about ``k / 2`` at a time. Each device
    receives ``2 * (k - 1) / k`` tensors, whereas in `d2lmini.allreduce` the first one receives
    ``k - 1`` and sends as many.

    Parameters
    ----------
    data : list of torch.Tensor
        One contiguous tensor per device, all of the same shape, none sharing memory with another.
        Changed in place.

    Raises
    ------
    ValueError
        If two entries share memory, or one is not contiguous.

    Examples
    --------
    >>> data = [torch.ones(3), torch.full((3,), 3.0)]
    >>> allreduce_ring(data)
    >>> data
    [tensor([4., 4., 4.]), tensor([4., 4., 4.])]
    """
    k = len(data)
    if len({(d.device, d.data_ptr()) for d in data}) < k:
        raise ValueError("allreduce_ring got tensors that share memory; give each device its own")
    if not all(d.is_contiguous() for d in data):
        raise ValueError("allreduce_ring needs contiguous tensors; call .contiguous() on them")
    chunks = [d.view(-1).tensor_split(k) for d in data]  # chunks[device][j]: (about n / k,)
    # A copy waits for the current streams of both devices: if all devices sent at once, each copy
    # would wait for the one before it, all the way round. So the even devices send first.
    order = [*range(0, k, 2), *range(1, k, 2)]
    for step in range(k - 1):  # in step 0 device i sends chunk i
        for i in order:
            j, right = (i - step) % k, (i + 1) % k
            chunks[right][j].add_(chunks[i][j].to(data[right].device))
    for step in range(k - 1):  # device i holds the sum of chunk i + 1
        for i in order:
            j, right = (i + 1 - step) % k, (i + 1) % k
            chunks[right][j].copy_(chunks[i][j])


def allreduce_bucketed(grads, bucket_bytes=25 * 2**20, allreduce=allreduce):
    """Sum lists of tensors over devices, in place, with many tensors per message.

    Every message costs its latency, however short it is. Packing small tensors into buckets trades
    these latencies for two copies within each device.

    Parameters
    ----------
    grads : list of list of torch.Tensor
        One list per device, equal in length, shapes and dtype. The tensors are changed in place.
    bucket_bytes : int, default 25 MiB
        Maximum size of a bucket, except that a larger tensor is a bucket of its own.
        DistributedDataParallel (Li et al. 2020) closes a bucket when it reaches 25 MiB, the first
        one already at 1 MiB, so that sending begins early.
    allreduce : callable, default `d2lmini.allreduce`
        Sums a list of tensors, one per device, in place.

    Raises
    ------
    ValueError
        If `bucket_bytes` is not positive, or the lists differ in length.

    Examples
    --------
    >>> grads = [[torch.ones(2), torch.ones(1)], [torch.zeros(2), torch.ones(1)]]
    >>> allreduce_bucketed(grads)
    >>> grads[1]
    [tensor([1., 1.]), tensor([2.])]
    """
    if bucket_bytes <= 0:
        raise ValueError(f"bucket_bytes is {bucket_bytes}; give a positive number, such as 2**20")
    if len({len(tensors) for tensors in grads}) != 1:
        raise ValueError("the devices have different numbers of tensors; give each the same list")
    for bucket in _buckets([g.nbytes for g in grads[0]], bucket_bytes):
        members = [[tensors[j] for j in bucket] for tensors in grads]
        flat = [torch.cat([g.reshape(-1) for g in mine]) for mine in members]
        allreduce(flat)
        for mine, total in zip(members, flat, strict=True):
            for g, part in zip(mine, total.split([g.numel() for g in mine]), strict=True):
                g.copy_(part.view_as(g))


def _buckets(sizes, limit):
    """Group consecutive indices so that the sizes in a group add up to at most `limit`."""
    groups, room = [], 0
    for j, size in enumerate(sizes):
        if size > room or not groups:
            groups.append([])
            room = limit
        groups[-1].append(j)
        room -= size
    return groups
