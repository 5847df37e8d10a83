"""The checkers accept right solutions and reject the bugs that people really made."""

import os
import subprocess
import sys

import torch
from support.solutions import refuses
from torch.nn import functional as F

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


def test_get_params_that_shares_memory_is_rejected():
    refuses(check_get_params, lambda ps, d: [p.to(d).requires_grad_() for p in ps], "shares memory")


def test_get_params_without_gradients_or_with_non_leaves_is_rejected():
    refuses(check_get_params, lambda ps, d: [p.clone() for p in ps], "does not require")
    attached = lambda ps, d: [p.clone().requires_grad_() * 1 for p in ps]  # noqa: E731
    refuses(check_get_params, attached, "not a leaf")


def test_split_that_loses_the_remainder_is_rejected():
    def equal_shards(X, y, devices):
        n = len(X) // len(devices)
        cut = [slice(i * n, (i + 1) * n) for i in range(len(devices))]
        return [X[c] for c in cut], [y[c] for c in cut]

    refuses(check_split_batch, equal_shards, "shards hold 6 examples")


def test_split_with_fewer_shards_than_devices_is_rejected():
    def all_to_one(X, y, devices):
        return [X], [y]

    refuses(check_split_batch, all_to_one, "one per device")


def test_uneven_split_is_rejected():
    chunked = lambda X, y, ds: (X.chunk(len(ds)), y.chunk(len(ds)))  # noqa: E731
    refuses(check_split_batch, chunked, r"uneven shards \[3, 3, 1\]")


def test_split_that_parts_labels_from_examples_is_rejected():
    def shuffled(X, y, devices):
        return X.tensor_split(len(devices)), y.flip(0).tensor_split(len(devices))

    refuses(check_split_batch, shuffled, "labels do not match")


def test_allreduce_that_rebinds_list_entries_is_rejected():
    def rebinding(data):  # the replicas' own gradients never get the sum
        homes = [d.device for d in data]
        total = torch.stack([d.cpu() for d in data]).sum(0)
        data[:] = [total.to(home) for home in homes]

    refuses(check_allreduce, rebinding, "replaced by a new tensor")


def test_allreduce_to_the_mean_is_rejected():
    def mean(data):
        total = torch.stack(data).mean(0)
        for d in data:
            d.copy_(total)

    refuses(check_allreduce, mean, "hold the mean")


def test_allreduce_that_forgets_to_hand_out_is_rejected():
    def reduce_only(data):
        for d in data[1:]:
            data[0] += d

    refuses(check_allreduce, reduce_only, r"\[1\] do not hold the sum")


def train_batch_with(allreduce=training.allreduce, reduction="sum", divide_by_shard=False):
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


def test_sum_of_means_is_rejected_as_a_k_fold_learning_rate():
    refuses(check_train_batch, train_batch_with(reduction="mean"), "2.00 times too long")


def test_division_by_the_shard_is_rejected_as_a_k_fold_learning_rate():
    refuses(check_train_batch, train_batch_with(divide_by_shard=True), "2.00 times too long")


def test_training_without_allreduce_is_rejected():
    refuses(check_train_batch, train_batch_with(allreduce=lambda data: None), "not summed")


def evaluate_padded(device_params, data_iter, devices):
    """Pad every batch to a multiple of k with its own examples, as a padding sampler does."""
    correct = count = 0
    for X, y in data_iter:
        rows = torch.arange(-(-len(X) // len(devices)) * len(devices)) % len(X)
        Xs, ys = split_batch(X[rows], y[rows], devices)
        for X_shard, y_shard, params in zip(Xs, ys, device_params, strict=True):
            correct += accuracy(lenet(X_shard, params), y_shard).item()
            count += len(y_shard)
    return correct / count


def test_evaluation_that_pads_is_rejected():
    refuses(check_evaluate, evaluate_padded, "counts exactly once")


def test_evaluation_by_the_mean_of_batch_means_is_rejected():
    def mean_of_means(device_params, data_iter, devices):
        means = [accuracy(lenet(X, device_params[0]), y).item() / len(y) for X, y in data_iter]
        return sum(means) / len(means)

    refuses(check_evaluate, mean_of_means, "counts exactly once")


def test_solutions_that_work_on_one_device_only_are_rejected():
    def copies_here(params, device):
        return [p.detach().clone().requires_grad_() for p in params]

    def moves_nothing(X, y, devices):
        return X.tensor_split(len(devices)), y.tensor_split(len(devices))

    def adds_where_it_is(data):
        total = sum(data[1:], start=data[0].clone())
        for d in data:
            d.copy_(total)

    refuses(check_get_params, copies_here, "not on its device")
    refuses(check_split_batch, moves_nothing, "not on its device")
    refuses(check_allreduce, adds_where_it_is, "copy one to the other's device")


def test_gradients_that_are_never_cleared_are_rejected():
    def never_cleared(X, y, device_params, devices, lr):
        before = [[p.grad for p in ps] for ps in device_params]
        train_batch_with()(X, y, device_params, devices, lr)
        assert before is not None
        for params in device_params:
            for p in params:
                p.grad += 1e-3

    refuses(check_train_batch, never_cleared, "second update")


def evaluate_on(devices_used, read):
    def evaluate(device_params, data_iter, devices):
        correct = count = 0
        for X, y in data_iter:
            for i in range(min(devices_used, len(devices))):
                rows = slice(i, None, min(devices_used, len(devices)))
                X_shard, y_shard = X[rows].to(devices[i]), y[rows].to(devices[i])
                right = accuracy(lenet(X_shard, device_params[i]), y_shard)
                correct += read(right)
            count += len(y)
        return float(correct) / count

    return evaluate


def test_evaluation_that_uses_one_device_or_waits_for_each_batch_is_rejected():
    refuses(check_evaluate, evaluate_on(1, lambda right: right.item()), "sim:1 computed nothing")
    refuses(check_evaluate, evaluate_on(9, lambda right: right.item()), "results were read")


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
    env = os.environ | {"D2LMINI_GPUS": "auto"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{name}: passed" for name in names], done.stderr
    assert done.returncode == 0, done.stderr
