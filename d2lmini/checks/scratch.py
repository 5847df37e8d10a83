"""Checkers for the exercises of the from-scratch chapter."""

import torch
from torch.nn import functional as F

from d2lmini import sim
from d2lmini.checks._apart import apart
from d2lmini.devices import device_name
from d2lmini.training import get_params, init_params, lenet

CPU = torch.device("cpu")


def _batch(size, seed=0):
    """Draw a batch of random images and labels: (size, 1, 28, 28) and (size,)."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(size, 1, 28, 28, generator=generator)
    return X, torch.randint(10, (size,), generator=generator)


@apart
def check_get_params(get_params):
    """Check a function that copies parameters to a device.

    Parameters
    ----------
    get_params : callable
        ``get_params(params, device)`` returning fresh leaf tensors that require gradients.

    Raises
    ------
    AssertionError
        If a copy shares memory with its original, has other values, or cannot be trained.

    Examples
    --------
    >>> from d2lmini import get_params
    >>> check_get_params(get_params)
    get_params: passed
    """
    originals = [torch.arange(6.0).reshape(2, 3), torch.ones(3)]
    copies = get_params(originals, CPU)
    for original, copy in zip(originals, copies, strict=True):
        assert torch.equal(original, copy.detach()), "a copy differs from its original in value"
        assert copy.data_ptr() != original.data_ptr(), (
            "a copy shares memory with its original: `.to(device)` copies nothing when the tensor "
            "is there already; ask for `copy=True` or clone"
        )
        assert copy.requires_grad, "a copy does not require gradients; call requires_grad_()"
        assert copy.is_leaf, (
            "a copy is not a leaf, so its .grad stays None; detach before requiring gradients"
        )
    (device,) = sim.configure(1)
    assert all(copy.device == device for copy in get_params(originals, device)), (
        "a copy is not on the device that was asked for"
    )
    print("get_params: passed")


@apart
def check_split_batch(split_batch):
    """Check a function that splits a batch over devices.

    Parameters
    ----------
    split_batch : callable
        ``split_batch(X, y, devices)`` returning the shards of X and the shards of y.

    Raises
    ------
    AssertionError
        If examples are lost, repeated or reordered, labels do not match, or the sizes are uneven.

    Examples
    --------
    >>> from d2lmini import split_batch
    >>> check_split_batch(split_batch)
    split_batch: passed
    """
    for size, k in ((6, 2), (7, 2), (7, 3), (2, 3)):
        X, y = _batch(size)
        Xs, ys = split_batch(X, y, [CPU] * k)
        where = f"with {size} examples on {k} devices"
        assert len(Xs) == len(ys) == k, f"{where}: {len(Xs)} shards; one a device is needed"
        total = sum(map(len, Xs))
        assert total == size, f"{where}: the shards hold {total} examples"
        assert torch.equal(torch.cat(list(Xs)), X), f"{where}: the examples were reordered"
        assert torch.equal(torch.cat(list(ys)), y), f"{where}: labels do not match their examples"
        sizes = [len(shard) for shard in Xs]
        assert max(sizes) - min(sizes) <= 1, f"{where}: uneven shards {sizes}"
    devices = sim.configure(3)
    for shards in split_batch(*_batch(7), devices):
        assert [shard.device for shard in shards] == devices, "a shard is not on its device"
    print("split_batch: passed")


@apart
def check_allreduce(allreduce):
    """Check a function that sums tensors over devices in place.

    Parameters
    ----------
    allreduce : callable
        ``allreduce(data)`` leaving the sum in every tensor of the list.

    Raises
    ------
    AssertionError
        If a tensor does not hold the sum: because the list was changed instead of the tensors,
        the mean was taken, or only some devices got it.

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
    print("allreduce: passed")


def _check_one_allreduce(allreduce, k, shape, devices=None):
    generator = torch.Generator().manual_seed(k)
    tensors = [torch.randint(-9, 9, shape, generator=generator).double() for _ in range(k)]
    wanted = torch.stack(tensors).sum(0)
    mean = wanted / k
    if devices:
        tensors = [tensor.to(device) for tensor, device in zip(tensors, devices, strict=True)]
    data = list(tensors)
    allreduce(data)
    after, kept = [d.cpu() for d in data], [tensor.cpu() for tensor in tensors]
    where = f"k={k}, shape {shape}"
    if all(torch.equal(d, wanted) for d in after):
        for i, tensor in enumerate(kept):
            assert torch.equal(tensor, wanted), (
                f"{where}: entry {i} of the list was replaced by a new tensor, and the replica's "
                "own gradient never got the sum; write into it: data[i][:] = ..."
            )
        return
    assert not all(torch.equal(d, mean) for d in after), (
        f"{where}: the tensors hold the mean; the sum was asked for"
    )
    bad = [i for i, d in enumerate(after) if not torch.equal(d, wanted)]
    raise AssertionError(f"{where}: device(s) {bad} do not hold the sum {wanted.tolist()}")


def reference_update(X, y, params, lr):
    """Compute one SGD step on one device in float64, by autograd alone.

    Parameters
    ----------
    X, y : torch.Tensor
        The batch, (batch, 1, 28, 28) and (batch,).
    params : list of torch.Tensor
        LeNet's parameters.
    lr : float
        Learning rate for the mean loss.

    Returns
    -------
    list of torch.Tensor
        The parameters after the step, float64.
    float
        The mean loss before the step.

    Examples
    --------
    >>> params, loss = reference_update(*_batch(4), init_params(), lr=0.1)
    >>> params[0].dtype, round(loss, 1)
    (torch.float64, 2.3)
    """
    params = [p.detach().double().requires_grad_() for p in params]
    loss = F.cross_entropy(lenet(X.double(), params), y)
    grads = torch.autograd.grad(loss, params)
    return [(p - lr * g).detach() for p, g in zip(params, grads, strict=True)], loss.item()


@apart
def check_train_batch(train_batch, tolerance=1e-4):
    """Check a function that makes one update over several devices.

    Parameters
    ----------
    train_batch : callable
        ``train_batch(X, y, device_params, devices, lr)`` updating every replica.
    tolerance : float, default 1e-4
        Largest allowed difference from a float64 update on one device, relative to the step.

    Raises
    ------
    AssertionError
        If an update on k devices is not the update on one, or the replicas part.

    Examples
    --------
    >>> from d2lmini import train_batch
    >>> check_train_batch(train_batch)
    train_batch: passed
    """
    for size, k in ((8, 1), (8, 2), (7, 3), (2, 4)):
        X, y = _batch(size)
        start = init_params()
        wanted, _ = reference_update(X, y, start, lr=0.5)
        replicas = [get_params(start, CPU) for _ in range(k)]
        where = f"batch {size} on {k} devices"
        train_batch(X, y, replicas, [CPU] * k, lr=0.5)
        _compare_update(start, wanted, replicas, where, tolerance)
        start, (wanted, _) = wanted, reference_update(X, y, wanted, lr=0.5)
        train_batch(X, y, replicas, [CPU] * k, lr=0.5)
        _compare_update(start, wanted, replicas, f"{where}, second update", tolerance)
    print("train_batch: passed")


def _compare_update(start, wanted, replicas, where, tolerance):
    """Compare the steps that the replicas took with the wanted step."""
    step = torch.cat([(w - s).flatten() for w, s in zip(wanted, start, strict=True)])
    for i, params in enumerate(replicas):
        taken = [(p.detach() - s).flatten() for p, s in zip(params, start, strict=True)]
        taken = torch.cat(taken).double()
        ratio = ((taken @ step) / (step @ step)).item()
        error = ((taken - step).norm() / step.norm()).item()
        k = len(replicas)
        assert k == 1 or abs(ratio - k) > 0.01 * k, (
            f"{where}: replica {i} took a step {ratio:.2f} times too long: divide the summed "
            "gradient by the size of the whole batch, not of the shard"
        )
        assert error <= tolerance, (
            f"{where}: replica {i} is off by {error:.1e} of the step (it went {ratio:.2f} of the "
            "way); check the split, the allreduce, and that gradients start from zero"
        )


@apart
def check_evaluate(evaluate):
    """Check a function that evaluates on several devices.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(device_params, data_iter, devices)`` returning the accuracy of LeNet.

    Raises
    ------
    AssertionError
        If an example is counted twice or not at all, a device has nothing to do, or a count is
        read before all work is launched.

    Examples
    --------
    >>> from d2lmini import evaluate_accuracy
    >>> on_first = lambda p, it, d: evaluate_accuracy(lambda X: lenet(X, p[0]), it, d[0])
    >>> check_evaluate(on_first)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    AssertionError: sim:1 computed nothing; split every batch over all devices
    """
    params = init_params()
    for sizes in ((8, 8), (8, 5), (1,), (3, 2)):
        batches = [_batch(size, seed) for seed, size in enumerate(sizes)]
        # Labels that the network predicts for all but the first example of each batch.
        batches = [(X, lenet(X, params).argmax(1)) for X, _ in batches]
        for _, y in batches:
            y[0] = (y[0] + 1) % 10
        total = sum(sizes)
        wanted = (total - len(sizes)) / total
        for k in (1, 2, 3):
            got = evaluate([get_params(params, CPU) for _ in range(k)], batches, [CPU] * k)
            assert abs(got - wanted) < 1e-9, (
                f"batches of {sizes} on {k} devices: accuracy {got:.4f}, but {wanted:.4f} is "
                "right; every example counts exactly once, whatever the batch sizes"
            )
    devices = sim.configure(2)
    evaluate([get_params(params, device) for device in devices], [_batch(8)] * 4, devices)
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
