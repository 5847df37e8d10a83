"""Checkers of sums over devices: their results and their traffic."""

import torch

import simgpu as sim
from d2lmini.checks.shared.results import describe, tensor
from d2lmini.checks.shared.solution import checker
from d2lmini.devices import device_name


@checker("allreduce(data)", may_change=["data"])
def check_allreduce(allreduce, balanced=False):
    """Check a function that sums tensors over devices in place.

    Parameters
    ----------
    allreduce : callable
        ``allreduce(data)`` leaving the sum in every tensor of the list.
    balanced : bool, default False
        Whether to reject solutions in which a device receives more than ``2 * (k - 1) / k``
        tensors, for example because all others send to it.

    Raises
    ------
    AssertionError
        If a tensor does not hold the sum: for example because the list was changed instead of the
        tensors, they hold the mean, or only some devices received the sum.

    Examples
    --------
    >>> from d2lmini import allreduce
    >>> check_allreduce(allreduce)
    allreduce: passed
    """
    for k in (1, 2, 3, 4, 5):
        for shape in ((7,), (3, 5), (1,)):
            _check_one_allreduce(allreduce, k, shape)
    for k in (2, 3, 4):
        _check_one_allreduce(allreduce, k, (7,), sim.configure(k))
    for k in (3, 4) if balanced else ():
        _check_balance(allreduce, k)
    print("allreduce: passed")


def _check_one_allreduce(allreduce, k, shape, devices=None):
    """Sum k tensors, on the host or on devices; raise AssertionError if a result is wrong."""
    tensors, before, wanted = _draw(k, shape, devices)
    data, mean = list(tensors), wanted / k
    where = f"k={k}, shape {shape}"
    returned = allreduce.at(where)(data)
    for i, (d, own) in enumerate(zip(data, tensors, strict=True)):
        tensor(d, f"{where}: entry {i} of the list", shape, own.device)
    after, kept = [d.cpu() for d in data], [tensor.cpu() for tensor in tensors]
    if all(torch.equal(d, wanted) for d in after):
        for i, own in enumerate(kept):
            assert torch.equal(own, wanted), (
                f"{where}: entry {i} of the list was replaced by a new tensor, and the replica's "
                "own gradient never got the sum; write into it: data[i][:] = ..."
            )
        return
    assert k == 1 or not all(map(torch.equal, after, before)), (
        f"{where}: no tensor was changed, and it returned {describe(returned)}; write the sum "
        "into the tensors of the list: data[i][:] = ..."
    )
    assert not all(torch.equal(d, mean) for d in after), (
        f"{where}: the tensors hold the mean; the sum was asked for"
    )
    bad = [i for i, d in enumerate(after) if not torch.equal(d, wanted)]
    raise AssertionError(f"{where}: device(s) {bad} do not hold the sum {wanted.tolist()}")


def _check_balance(allreduce, k, size=240):
    """Raise AssertionError if a device receives more than 2(k - 1) / k tensors."""
    data, *_ = _draw(k, (size,), _directly_linked(k))
    where = f"k={k}, {size} elements"
    allreduce.at(where)(list(data))
    taken = {
        device: sum(received) / data[0].nbytes
        for device, received in _taken_in(data, _copies()).items()
    }
    busiest, best = max(taken, key=taken.get), 2 * (k - 1) / k
    assert taken[busiest] <= best + 1e-9, (
        f"{where}: {busiest} takes in {taken[busiest]:.2f} times the tensor; {best:.2f} are enough "
        "if each device adds up its own share only, and then sends that sum to the others"
    )


@checker("ring_reduce_scatter(data)", may_change=["data"])
def check_reduce_scatter(ring_reduce_scatter):
    """Check the first half of a ring allreduce: device i ends with the sum of chunk i.

    Parameters
    ----------
    ring_reduce_scatter : callable
        ``ring_reduce_scatter(data)`` leaving in ``data[i].tensor_split(k)[i]``, chunk i of
        tensor i, the sum of the chunks i of all tensors. The other chunks may hold anything.

    Raises
    ------
    AssertionError
        If a device holds another chunk's sum or none, a device does not send ``k - 1`` chunks, or
        sends to a device that is not its neighbour.

    Examples
    --------
    >>> from d2lmini import allreduce
    >>> check_reduce_scatter(allreduce)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    AssertionError: k=3, 240 elements: sim:1 sends to sim:0; in the ring it sends to sim:2 only
    """
    for k in (1, 2, 3, 4, 5):
        for size in (12, 7):
            _check_one_reduce_scatter(ring_reduce_scatter, k, size)
    for k in (2, 3, 4):
        _check_one_reduce_scatter(ring_reduce_scatter, k, 12, sim.configure(k))
    for k in (3, 4):
        _check_ring_traffic(ring_reduce_scatter, k)
    print("ring_reduce_scatter: passed")


def _check_one_reduce_scatter(reduce_scatter, k, size, devices=None):
    """Raise AssertionError unless chunk i of tensor i becomes the sum."""
    tensors, before, wanted = _draw(k, (size,), devices)
    where = f"k={k}, {size} elements"
    reduce_scatter.at(where)(list(tensors))
    sums, after = wanted.tensor_split(k), [x.cpu().tensor_split(k) for x in tensors]
    for i, chunks in enumerate(after):
        if torch.equal(chunks[i], sums[i]):
            continue
        held = [j for j in range(k) if len(sums[j]) and torch.equal(chunks[j], sums[j])]
        assert not held, (
            f"{where}: device {i} holds the sum of chunk {held[0]}, and should hold that of chunk "
            f"{i}; begin with another chunk"
        )
        assert not torch.equal(chunks[i], before[i].tensor_split(k)[i]), (
            f"{where}: chunk {i} of device {i} was not changed; add to it in place, in the tensors "
            "of `data`"
        )
        raise AssertionError(
            f"{where}: chunk {i} of device {i} is {chunks[i].tolist()}; the sum of the chunks {i} "
            f"of all devices is {sums[i].tolist()}. Every chunk is added once, and what "
            "travels on is the partial sum"
        )


def _check_ring_traffic(reduce_scatter, k, size=240):
    """Raise AssertionError unless each device sends k - 1 chunks, to its neighbour."""
    data, *_ = _draw(k, (size,), _directly_linked(k))
    where = f"k={k}, {size} elements"
    reduce_scatter.at(where)(list(data))
    names = [device_name(x.device) for x in data]
    copies = _copies()
    for source, target, _ in copies:
        right = names[(names.index(source) + 1) % k]
        assert target == right, (
            f"{where}: {source} sends to {target}; in the ring it sends to {right} only"
        )
    for device, received in _taken_in(data, copies).items():
        chunks = sum(received) * k / data[0].nbytes
        assert abs(chunks - (k - 1)) < 1e-9, (
            f"{where}: {device} takes in {chunks:g} chunks; in {k - 1} steps of one chunk each it "
            f"takes in {k - 1}"
        )


def _directly_linked(k):
    """Return k simulated GPUs with direct links between all, whatever the default GPU is."""
    return sim.configure(k, gpu="a100", link="nvlink3")


def _draw(k, shape, devices=None):
    """Draw k tensors of integers; return them on the devices, on the host, and their sum."""
    generator = torch.Generator().manual_seed(k)
    here = [torch.randint(-9, 9, shape, generator=generator).double() for _ in range(k)]
    homes = devices or [x.device for x in here]
    there = [x.to(home, copy=True) for x, home in zip(here, homes, strict=True)]
    return there, here, torch.stack(here).sum(0)


def _copies():
    """Return source, target and bytes of each copy between devices."""
    spans = [span for span in sim.trace() if span.engine == "p2p"]
    return [(span.name.split()[1], span.name.split()[3], span.bytes) for span in spans]


def _taken_in(data, copies):
    """Return the bytes of each copy that a device received, by device."""
    taken = {device_name(x.device): [] for x in data}
    for _, target, size in copies:
        taken[target].append(size)
    return taken
