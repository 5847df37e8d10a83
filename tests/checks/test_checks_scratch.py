"""The checkers of the from-scratch chapter reject the bugs that people really made, and others."""

import os
import subprocess
import sys

import pytest
import torch
from support.samples.solutions import make_tests, returns_nothing
from torch.nn import functional as F

from d2lmini import training
from d2lmini.checks import scratch as checks
from d2lmini.evaluation import accuracy
from d2lmini.training import lenet, split_batch

RIGHT, WRONG = {}, {}


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


RIGHT["get_params"] = training.get_params
WRONG["get_params"] = {
    "shares memory": lambda params, device: [p.to(device).requires_grad_() for p in params],
    "does not require": lambda params, device: [p.clone() for p in params],
    "not a leaf": lambda params, device: [p.clone().requires_grad_() * 1 for p in params],
    "not on its device": lambda params, device: copies(params, device, lambda p, d: p.clone()),
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


def split_with(change):
    """Split rightly, then change the shards of X that go to simulated GPUs."""

    def split(X, y, devices):
        Xs, ys = split_batch(X, y, devices)
        return (Xs if on_host(devices[0]) else [change(shard) for shard in Xs]), ys

    return split


def normalises_in_place(X, y, devices):
    X /= 2
    return split_batch(X, y, devices)


def equal_shards(X, y, devices):
    n = len(X) // len(devices)
    cut = [slice(i * n, (i + 1) * n) for i in range(len(devices))]
    return [X[c] for c in cut], [y[c] for c in cut]


def moves_nothing(X, y, devices):
    return X.tensor_split(len(devices)), y.tensor_split(len(devices))


RIGHT["split_batch"] = split_batch
WRONG["split_batch"] = {
    "shards hold 6 examples": equal_shards,
    "one per device": lambda X, y, devices: ([X], [y]),
    r"uneven shards \[3, 3, 1\]": lambda X, y, ds: (X.chunk(len(ds)), y.chunk(len(ds))),
    "labels do not match": lambda X, y, devices: moves_nothing(X, y.flip(0), devices),
    "not on its device": moves_nothing,
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


def sums_on_the_host_only(data):
    training.allreduce(data)
    for d in data[1:] if data[0].device.type != "cpu" else ():
        d.zero_()


def leaves_the_sum_on_one_device(data):
    training.allreduce(data)
    data[:] = [d.to(data[0].device) for d in data]


def rebinds(data):  # the replicas' own gradients never get the sum
    total = torch.stack([d.cpu() for d in data]).sum(0)
    data[:] = [total.to(d.device) for d in data]


def gives_all(total, data):
    for d in data:
        d.copy_(total)


def reduces_only(data):
    for d in data[1:]:
        data[0] += d


RIGHT["allreduce"] = training.allreduce
WRONG["allreduce"] = {
    "replaced by a new tensor": rebinds,
    "hold the mean": lambda data: gives_all(torch.stack(data).mean(0), data),
    r"\[1\] do not hold the sum": reduces_only,
    "copy one to the other's device": lambda data: gives_all(
        sum(data[1:], start=data[0].clone()), data
    ),
    r"no tensor was changed, and it returned None": returns_nothing,
    r"no tensor was changed, and it returned a list of 2": lambda data: [sum(data)] * len(data),
    r"k=2, shape \(7,\): device\(s\) \[1\] do not hold the sum": sums_on_the_host_only,
    "entry 1 of the list is not on its device": leaves_the_sum_on_one_device,
    "changed `data`: it has 0 instead of 1": first_emptied(training.allreduce),
}


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


def trains_with(allreduce=training.allreduce, reduction="sum", divide_by_shard=False):
    def train_batch(X, y, device_params, devices, lr):
        Xs, ys = split_batch(X, y, devices)
        for X_shard, y_shard, params in zip(Xs, ys, device_params, strict=True):
            F.cross_entropy(lenet(X_shard, params), y_shard, reduction=reduction).backward()
        with torch.no_grad():
            for grads in zip(*[[p.grad for p in ps] for ps in device_params], strict=True):
                allreduce(list(grads))
        for params in device_params:
            size = len(Xs[0]) if divide_by_shard else (1 if reduction == "mean" else len(X))
            training.sgd(params, lr, size)

    return train_batch


def never_clears(X, y, device_params, devices, lr):
    trains_with()(X, y, device_params, devices, lr)
    for params in device_params:
        for p in params:
            p.grad += 1e-3


WRONG["train_batch"] = {
    "2.00 times too long": (trains_with(reduction="mean"), trains_with(divide_by_shard=True)),
    "not summed": trains_with(allreduce=lambda data: None),
    "second update": never_clears,
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


def evaluates_padded(device_params, data_iter, devices):
    """Pad every batch to a multiple of k with its own examples, as a padding sampler does."""
    correct = count = 0
    for X, y in data_iter:
        rows = torch.arange(-(-len(X) // len(devices)) * len(devices)) % len(X)
        Xs, ys = split_batch(X[rows], y[rows], devices)
        for X_shard, y_shard, params in zip(Xs, ys, device_params, strict=True):
            correct += accuracy(lenet(X_shard, params), y_shard).item()
            count += len(y_shard)
    return correct / count


def averages_batches(device_params, data_iter, devices):
    means = [accuracy(lenet(X, device_params[0]), y).item() / len(y) for X, y in data_iter]
    return sum(means) / len(means)


def waits_for_each(device_params, data_iter, devices):
    """Take rows in turns; read each result before the next batch."""
    correct = count = 0
    for X, y in data_iter:
        for i, (device, params) in enumerate(zip(devices, device_params, strict=True)):
            rows = slice(i, None, len(devices))
            correct += accuracy(lenet(X[rows].to(device), params), y[rows].to(device)).item()
        count += len(y)
    return correct / count


WRONG["evaluate"] = {
    "counts exactly once": (evaluates_padded, averages_batches),
    "sim:1 computed nothing": lambda p, it, devices: waits_for_each(p[:1], it, devices[:1]),
    "results were read": waits_for_each,
    "must be a number, but it is None": returns_nothing,
    "but it is a list of 1": lambda *args: [evaluates(*args)],
    "number of right answers": lambda p, it, d: evaluates(p, it, d) * sum(len(y) for _, y in it),
    "in per cent": lambda *args: 100 * evaluates(*args),
    r"1 device \(sim\): accuracy 0.0000, but 0.8750 is right": zero_on_devices,
    r"\(sim\): evaluate raised RuntimeError.*x.to\(y.device\)": evaluates_without_moving,
    "wrote into `data_iter`": evaluates_scaled,
    "changed `device_params`": first_emptied(evaluates),
}


@pytest.mark.long
@pytest.mark.process
def test_checkers_accept_right_solutions_beside_a_real_gpu():
    # PyTorch calls simulated GPUs "privateuseone" there.
    names = ("allreduce", "evaluate", "get_params", "split_batch", "train_batch")
    program = f"""
import torch
torch.accelerator.is_available = lambda: True
from d2lmini import *
from d2lmini import checks
def evaluate(device_params, data_iter, devices):
    correct, count = [torch.zeros((), dtype=int, device=d) for d in devices], 0
    for X, y in data_iter:
        for c, *shard, params in zip(correct, *split_batch(X, y, devices), device_params):
            c += accuracy(lenet(shard[0], params), shard[1])
        count += len(y)
    return sum(c.item() for c in correct) / count
for name in {names}:
    getattr(checks, "check_" + name)(globals()[name])
assert sim.configure(1)[0].type == "privateuseone"
"""
    env = os.environ | {"D2LMINI_GPUS": "auto", "SIMGPU_FORCE": ""}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{name}: passed" for name in names], done.stderr
    assert done.returncode == 0, done.stderr


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
