"""What the from-scratch checkers say of mistakes that show on simulated GPUs or in the result."""

import pytest
import torch
from support.solutions import refuses, returns_nothing

from d2lmini import training
from d2lmini.checks import (
    check_allreduce,
    check_evaluate,
    check_get_params,
    check_split_batch,
    check_train_batch,
)
from d2lmini.evaluation import accuracy
from d2lmini.training import lenet, split_batch


def on_host(device):
    return torch.device(device).type == "cpu"


def copies(params, device, make=lambda p, device: p.to(device, copy=True)):
    return [make(p.detach(), device).requires_grad_() for p in params]


def first_emptied(solution):
    """Let a solution do its work, then empty the first list that it was given."""

    def empties(*arguments):
        result = solution(*arguments)
        next(a for a in arguments if isinstance(a, list)).clear()
        return result

    return empties


def trains_the_originals(params, device):
    for p in params:
        p.requires_grad_()
    return copies(params, device)


WRONG_COPIES = {
    "get_params returned None": returns_nothing,
    "a list of 2 is needed": lambda params, device: copies(params, device)[:1],
    "returned a dict": lambda params, device: dict(enumerate(copies(params, device))),
    "a copy must be a tensor": lambda params, device: [p.tolist() for p in params],
    r"must be of shape \(2, 3\), but is a tensor of shape \(1,\)": lambda params, device: [
        torch.zeros(1, device=device, requires_grad=True) for _ in params
    ],
    "copied to sim:0: a copy differs from its original in value": lambda params, device: copies(
        params, device, lambda p, d: p.clone() if on_host(d) else torch.zeros_like(p, device=d)
    ),
    "parameters on sim:0 copied to sim:0: a copy shares memory": lambda params, device: copies(
        params, device, lambda p, d: p.clone() if on_host(d) else p.to(d)
    ),
    "should be on sim:1; copy it with": lambda params, device: copies(
        params, device, lambda p, d: p.to("cpu" if on_host(d) else "sim:0", copy=True)
    ),
    "an original requires gradients now": trains_the_originals,
    "wrote into `params`": lambda params, device: copies(
        params, device, lambda p, d: p.mul_(2).to(d, copy=True)
    ),
    "changed `params`: it has 0 instead of 2 entries": first_emptied(copies),
}


@pytest.mark.parametrize("reason", WRONG_COPIES)
def test_get_params_names_the_mistake(reason):
    refuses(check_get_params, WRONG_COPIES[reason], reason)


def split_with(change):
    """Split rightly, then change the shards of X that go to simulated GPUs."""

    def split(X, y, devices):
        Xs, ys = split_batch(X, y, devices)
        return (Xs if on_host(devices[0]) else [change(shard) for shard in Xs]), ys

    return split


def normalises_in_place(X, y, devices):
    X /= 2
    return split_batch(X, y, devices)


WRONG_SPLITS = {
    "split_batch returned None": returns_nothing,
    "a list of 2 is needed": lambda X, y, devices: split_batch(X, y, devices)[0] * 2,
    "a shard of X must be a tensor": lambda X, y, devices: (devices, devices),
    r"an example is of shape \(1, 28, 28\)": split_with(lambda shard: shard.flatten(1)),
    r"devices \(sim\): the examples were reordered or changed": split_with(lambda shard: shard * 0),
    r"devices \(sim\): a shard of X is not on its device: it is on cpu": split_with(
        lambda shard: shard.cpu()
    ),
    "wrote into `X`": normalises_in_place,
    "changed `devices`: it has 0 instead of 2": first_emptied(split_batch),
}


@pytest.mark.parametrize("reason", WRONG_SPLITS)
def test_split_batch_names_the_mistake(reason):
    refuses(check_split_batch, WRONG_SPLITS[reason], reason)


def sums_on_the_host_only(data):
    training.allreduce(data)
    for d in data[1:] if data[0].device.type != "cpu" else ():
        d.zero_()


def leaves_the_sum_on_one_device(data):
    training.allreduce(data)
    data[:] = [d.to(data[0].device) for d in data]


WRONG_SUMS = {
    r"no tensor was changed, and it returned None": returns_nothing,
    r"no tensor was changed, and it returned a list of 2": lambda data: [sum(data)] * len(data),
    r"k=2, shape \(7,\): device\(s\) \[1\] do not hold the sum": sums_on_the_host_only,
    "entry 1 of the list is not on its device": leaves_the_sum_on_one_device,
    "changed `data`: it has 0 instead of 1": first_emptied(training.allreduce),
}


@pytest.mark.parametrize("reason", WRONG_SUMS)
def test_allreduce_names_the_mistake(reason):
    refuses(check_allreduce, WRONG_SUMS[reason], reason)


def train_on(devices_for):
    """Train rightly on the host; elsewhere as if the devices were others."""

    def train(X, y, device_params, devices, lr):
        training.train_batch(X, y, device_params, devices_for(devices), lr)

    return train


def trains_without_moving(X, y, device_params, devices, lr):
    k = len(devices)
    shards = list(zip(X.tensor_split(k), y.tensor_split(k), device_params, strict=True))
    for shard in shards:
        training.loss_sum(*shard).backward()
    for grads in zip(*[[p.grad for p in params] for params in device_params], strict=True):
        total = torch.stack(grads).sum(0)
        for g in grads:
            g.copy_(total)
    for params in device_params:
        training.sgd(params, lr, len(X))


def updates_copies(X, y, device_params, devices, lr):
    mine = [
        training.get_params(params, d) for params, d in zip(device_params, devices, strict=True)
    ]
    training.train_batch(X, y, mine, devices, lr)
    return mine


def trains_on_the_host(X, y, device_params, devices, lr):
    """Replace the replicas by new ones that are on the host."""
    params = training.get_params(device_params[0], "cpu")
    training.train_batch(X, y, [params], ["cpu"], lr)
    for replica in device_params:
        replica[:] = training.get_params(params, "cpu")


def scales_the_images(X, y, device_params, devices, lr):
    X /= 2
    training.train_batch(X, y, device_params, devices, lr)


WRONG_UPDATES = {
    "train_batch changed `device_params`: it has 0 instead of 1": (
        lambda X, y, device_params, devices, lr: device_params.clear()
    ),
    r"\(sim\): train_batch raised RuntimeError.*x.to\(y.device\)": trains_without_moving,
    "batch 8 on 1 device .cpu.: replica 0 did not change; update": returns_nothing,
    "replica 0 did not change; update": updates_copies,
    "parameter of replica 0 is not on its device": trains_on_the_host,
    "replica 1 did not change; update": lambda X, y, device_params, devices, lr: (
        training.train_batch(X, y, device_params[:1], devices[:1], lr)
    ),
    "went the wrong way: subtract": lambda X, y, device_params, devices, lr: training.train_batch(
        X, y, device_params, devices, -lr
    ),
    "holds NaN": lambda X, y, device_params, devices, lr: training.train_batch(
        X, y, device_params, devices, lr * float("nan")
    ),
    "wrote into `X`": scales_the_images,
    "gradients were not summed": lambda X, y, device_params, devices, lr: [
        training.train_batch(X_shard, y_shard, [params], [device], lr)
        for X_shard, y_shard, params, device in zip(
            *split_batch(X, y, devices), device_params, devices, strict=True
        )
        if len(X_shard)
    ],
}


@pytest.mark.parametrize("reason", WRONG_UPDATES)
def test_train_batch_names_the_mistake(reason):
    refuses(check_train_batch, WRONG_UPDATES[reason], reason)


def evaluates(device_params, data_iter, devices):
    correct, count = [torch.zeros((), dtype=torch.int64, device=d) for d in devices], 0
    for X, y in data_iter:
        for i, (X_shard, y_shard) in enumerate(zip(*split_batch(X, y, devices), strict=True)):
            correct[i] += accuracy(lenet(X_shard, device_params[i]), y_shard)
        count += len(y)
    return sum(c.item() for c in correct) / count


def zero_on_devices(device_params, data_iter, devices):
    right = evaluates(device_params, data_iter, devices)
    return right if on_host(devices[0]) else 0.0


def evaluates_without_moving(device_params, data_iter, devices):
    pairs = [(accuracy(lenet(X, device_params[0]), y).item(), len(y)) for X, y in data_iter]
    return sum(c for c, _ in pairs) / sum(n for _, n in pairs)


def evaluates_scaled(device_params, data_iter, devices):
    for X, _ in data_iter:
        X *= 255
    return evaluates(device_params, data_iter, devices)


WRONG_EVALUATIONS = {
    "must be a number, but it is None": returns_nothing,
    "but it is a list of 1": lambda *args: [evaluates(*args)],
    "number of right answers": lambda p, it, d: evaluates(p, it, d) * sum(len(y) for _, y in it),
    "in per cent": lambda *args: 100 * evaluates(*args),
    r"1 device \(sim\): accuracy 0.0000, but 0.8750 is right": zero_on_devices,
    r"\(sim\): evaluate raised RuntimeError.*x.to\(y.device\)": evaluates_without_moving,
    "wrote into `data_iter`": evaluates_scaled,
    "changed `device_params`": first_emptied(evaluates),
}


@pytest.mark.parametrize("reason", WRONG_EVALUATIONS)
def test_evaluate_names_the_mistake(reason):
    refuses(check_evaluate, WRONG_EVALUATIONS[reason], reason)
