"""Checkers for the exercises of the from-scratch chapter."""

import torch

import simgpu as sim
from d2lmini.checks._lenet_parts import (
    CPU,
    batch,
    check_accuracy,
    check_copy,
    check_one_split,
)
from d2lmini.checks._predictions import CASES
from d2lmini.checks._results import number
from d2lmini.checks._solution import checker
from d2lmini.checks._sums import (
    check_balance,
    check_one_allreduce,
    check_one_reduce_scatter,
    check_ring_traffic,
)
from d2lmini.checks._update import check_two_updates
from d2lmini.devices import device_name


def _on_cpu(k):
    """Return k times the host, on which mistakes in arithmetic are found before those in moving."""
    return [CPU] * k


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
        If a copy shares memory with its original, has other values, is on another device than was
        asked for, or cannot be trained.

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
            check_copy(values, original, copy, device, where)
    print("get_params: passed")


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
    for devices_of in (_on_cpu, sim.configure):
        for size, k in ((6, 2), (7, 2), (7, 3), (2, 3)):
            check_one_split(split_batch, batch(size), devices_of(k))
    print("split_batch: passed")


@checker("allreduce(data)", may_change=["data"])
def check_allreduce(allreduce, balanced=False):
    """Check a function that sums tensors over devices in place.

    Parameters
    ----------
    allreduce : callable
        ``allreduce(data)`` leaving the sum in every tensor of the list.
    balanced : bool, default False
        Whether no device may take in more than ``2 * (k - 1) / k`` tensors, as the first one does
        where all the others send to it.

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
            check_one_allreduce(allreduce, k, shape)
    for k in (2, 3, 4):
        check_one_allreduce(allreduce, k, (7,), sim.configure(k))
    for k in (3, 4) if balanced else ():
        check_balance(allreduce, k)
    print("allreduce: passed")


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
        If a device holds another chunk's sum or none, more or less is sent than ``k - 1`` chunks
        a device, or something is sent to another device than the neighbour.

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
            check_one_reduce_scatter(ring_reduce_scatter, k, size)
    for k in (2, 3, 4):
        check_one_reduce_scatter(ring_reduce_scatter, k, 12, sim.configure(k))
    for k in (3, 4):
        check_ring_traffic(ring_reduce_scatter, k)
    print("ring_reduce_scatter: passed")


@checker("train_batch(X, y, device_params, devices, lr)", may_change=["device_params"])
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
    for devices_of in (_on_cpu, sim.configure):
        for size, k in ((8, 1), (8, 2), (7, 3), (2, 4)):
            check_two_updates(train_batch, batch(size), devices_of(k), tolerance)
    print("train_batch: passed")


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
    for devices_of in (_on_cpu, sim.configure):
        for sizes in ((8, 8), (8, 5), (1,), (3, 2)):
            for k in (1, 2, 3):
                check_accuracy(evaluate, sizes, devices_of(k))
    devices = sim.configure(2)
    check_accuracy(evaluate, (8,) * 4, devices)
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


@checker("predict_step(k, batch_size, rate, nbytes, bandwidth, latency)")
def check_predict_step(predict_step):
    """Check a function that estimates how long a step of data parallelism takes.

    Parameters
    ----------
    predict_step : callable
        ``predict_step(k, batch_size, rate, nbytes, bandwidth, latency)`` returning seconds: for
        computing the share of one of k GPUs, at `rate` images per second, and for a ring allreduce
        of `nbytes` bytes over links of `bandwidth` bytes per second.

    Raises
    ------
    AssertionError
        If a prediction is wrong; the message names the term.

    Examples
    --------
    >>> compute_only = lambda k, n, rate, nbytes, bandwidth, latency: n / k / rate
    >>> check_predict_step(compute_only)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    AssertionError: it forgets the allreduce
    """
    for case in CASES:
        got = predict_step.at(case)(*case.arguments)
        case.check_step(number(got, f"{case}: the time that predict_step returns"))
    print("predict_step: passed")


@checker("break_even(k, rate, nbytes, bandwidth, latency)")
def check_break_even(break_even):
    """Check a function that says from which minibatch on k GPUs are faster than one.

    Parameters
    ----------
    break_even : callable
        ``break_even(k, rate, nbytes, bandwidth, latency)`` returning a number of images; it may
        be rounded up to a whole number.

    Raises
    ------
    AssertionError
        If by `check_predict_step`'s formula k GPUs are slower there, or were faster before.

    Examples
    --------
    >>> never = lambda k, rate, nbytes, bandwidth, latency: float("inf")
    >>> check_break_even(never)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    AssertionError: 10 images would be enough
    """
    for case in CASES:
        if case.k == 1:
            continue
        got = break_even.at(case)(*case.hardware)
        case.check_break_even(number(got, f"{case}: the number that break_even returns"))
    print("break_even: passed")
