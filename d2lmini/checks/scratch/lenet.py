"""Checkers of the parts of LeNet's training: replicas, shards of a batch, accuracy."""

import math

import torch

import simgpu as sim
from d2lmini.checks.shared.results import describe, number, several, tensor
from d2lmini.checks.shared.solution import checker
from d2lmini.devices import device_name
from d2lmini.training import get_params, init_params, lenet

CPU = torch.device("cpu")


def on_cpu(k):
    """Return the host k times, to find arithmetic mistakes before mistakes with devices."""
    return [CPU] * k


def batch(size, seed=0):
    """Draw a batch of random images and labels: (size, 1, 28, 28) and (size,)."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(size, 1, 28, 28, generator=generator)
    return X, torch.randint(10, (size,), generator=generator)


@checker("get_params(params, device)")
def check_get_params(get_params):
    """Check a function that copies parameters to a device.

    Parameters
    ----------
    get_params : callable
        ``get_params(params, device)`` returning fresh leaf tensors that require gradients.

    Raises
    ------
    AssertionError
        If a copy shares memory with its original, has other values, is on the wrong device, or
        cannot be trained.

    Examples
    --------
    >>> from d2lmini import get_params
    >>> check_get_params(get_params)
    get_params: passed
    """
    host = [torch.arange(6.0).reshape(2, 3), torch.ones(3)]
    first, second = sim.configure(2)
    for home, device in ((CPU, CPU), (CPU, first), (first, first), (first, second)):
        originals = [tensor.to(home, copy=True) for tensor in host]
        where = f"parameters on {device_name(home)} copied to {device_name(device)}"
        copies = get_params.at(where)(originals, device)
        copies = get_params.at(where).items(copies, len(originals))
        for values, original, copy in zip(host, originals, copies, strict=True):
            _check_copy(values, original, copy, device, where)
    print("get_params: passed")


def _check_copy(values, original, copy, device, where):
    """Raise AssertionError if a copy is wrong or its original has changed."""
    tensor(copy, f"{where}: a copy", values.shape, device)
    assert torch.equal(copy.detach().cpu(), values), (
        f"{where}: a copy differs from its original in value"
    )
    shared = copy.device == original.device and copy.data_ptr() == original.data_ptr()
    assert not shared, (
        f"{where}: a copy shares memory with its original: `.to(device)` copies nothing when the "
        "tensor is there already; ask for `copy=True` or clone"
    )
    assert copy.requires_grad, f"{where}: a copy does not require gradients; call requires_grad_()"
    assert copy.is_leaf, (
        f"{where}: a copy is not a leaf, so its .grad stays None; detach before requiring gradients"
    )
    assert not original.requires_grad, (
        f"{where}: an original requires gradients now; call requires_grad_() on the copy"
    )


@checker("split_batch(X, y, devices)")
def check_split_batch(split_batch):
    """Check a function that splits a batch over devices.

    Parameters
    ----------
    split_batch : callable
        ``split_batch(X, y, devices)`` returning the shards of X and the shards of y.

    Raises
    ------
    AssertionError
        If examples are lost, repeated or reordered, labels do not match, the sizes are uneven, or
        a shard is not on its device.

    Examples
    --------
    >>> from d2lmini import split_batch
    >>> check_split_batch(split_batch)
    split_batch: passed
    """
    for devices_of in (on_cpu, sim.configure):
        for size, k in ((6, 2), (7, 2), (7, 3), (2, 3)):
            _check_one_split(split_batch, batch(size), devices_of(k))
    print("split_batch: passed")


def _check_one_split(split_batch, batch, devices):
    """Split one batch; raise AssertionError unless the shards are its parts."""
    k, size = len(devices), len(batch[0])
    where = f"with {size} examples on {several(devices)}"
    split_batch = split_batch.at(where)
    Xs, ys = split_batch.items(split_batch(*batch, list(devices)), 2)
    for name, whole, shards in (("X", batch[0], Xs), ("y", batch[1], ys)):
        shards = split_batch.items(shards)
        assert len(shards) == k, (
            f"{where}: {len(shards)} shards of {name}; one per device is needed"
        )
        for shard, device in zip(shards, devices, strict=True):
            tensor(shard, f"{where}: a shard of {name}", device=device)
            is_part = shard.dim() == whole.dim() and shard.shape[1:] == whole.shape[1:]
            assert is_part, (
                f"{where}: a shard of {name} is {describe(shard)}; an example is of shape "
                f"{tuple(whole.shape[1:])}"
            )
        total = sum(map(len, shards))
        assert total == size, f"{where}: the shards hold {total} examples"
        problem = (
            "the examples were reordered or changed"
            if name == "X"
            else "labels do not match their examples"
        )
        assert torch.equal(torch.cat([shard.cpu() for shard in shards]), whole), (
            f"{where}: {problem}"
        )
        sizes = [len(shard) for shard in shards]
        assert max(sizes) - min(sizes) <= 1, f"{where}: uneven shards {sizes}"


@checker("evaluate(device_params, data_iter, devices)")
def check_evaluate(evaluate):
    """Check a function that evaluates on several devices.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(device_params, data_iter, devices)`` returning the accuracy of LeNet.

    Raises
    ------
    AssertionError
        If an example is counted twice or not at all, a device is idle, or a count is read before
        all work is launched.

    Examples
    --------
    >>> from d2lmini import evaluate_accuracy
    >>> on_first = lambda p, it, d: evaluate_accuracy(lambda X: lenet(X, p[0]), it, d[0])
    >>> check_evaluate(on_first)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    AssertionError: sim:1 computed nothing; split every batch over all devices
    """
    for devices_of in (on_cpu, sim.configure):
        for sizes in ((8, 8), (8, 5), (1,), (3, 2)):
            for k in (1, 2, 3):
                _check_accuracy(evaluate, sizes, devices_of(k))
    devices = sim.configure(2)
    _check_accuracy(evaluate, (8,) * 4, devices)
    spans = sim.trace()
    for device in map(device_name, devices):
        assert any(s.device == device and s.engine == "compute" for s in spans), (
            f"{device} computed nothing; split every batch over all devices"
        )
    reads = sum(span.engine == "d2h" for span in spans)
    assert reads <= len(devices), (
        f"{reads} results were read for 4 batches; every reading waits for its device, so read "
        "once a device, at the end"
    )
    print("evaluate: passed")


def _check_accuracy(evaluate, sizes, devices):
    """Evaluate batches of these sizes; raise AssertionError if the accuracy is wrong."""
    params, batches = init_params(), []
    for seed, size in enumerate(sizes):
        X, _ = batch(size, seed)
        y = lenet(X, params).argmax(1)
        y[0] = (y[0] + 1) % 10  # the network is right for all but the first example of each batch
        batches.append((X, y))
    right, total = sum(sizes) - len(sizes), sum(sizes)
    where = f"batches of {sizes} on {several(devices)}"
    replicas = [get_params(params, device) for device in devices]
    got = evaluate.at(where)(replicas, batches, list(devices))
    got = number(got, f"{where}: the accuracy that evaluate returns")
    hint = "every example counts exactly once, whatever the batch sizes"
    if right and math.isclose(got, right):
        hint = f"that is the number of right answers; divide it by the number of examples, {total}"
    elif right and math.isclose(got, 100 * right / total):
        hint = "that is in per cent; return a share, from 0 to 1"
    assert abs(got - right / total) < 1e-6, (
        f"{where}: accuracy {got:.4f}, but {right / total:.4f} is right; {hint}"
    )
