"""The checkers of the page on unequal devices accept right solutions and name what is wrong."""

import itertools

import pytest
import torch
from support.samples.solutions import make_tests, returns_nothing

from d2lmini.checks import unequal as checks

RIGHT, WRONG = {}, {}


@pytest.mark.parametrize(
    ("batch_size", "devices"),
    [
        (7, [(0.0, 1.0), (0.0, 2.5)]),
        (6, [(1.0, 0.5), (0.0, 2.0), (3.0, 0.1)]),
        (5, [(9.0, 1.0), (0.0, 1.0)]),
    ],
)
def test_best_split_is_the_best_of_all(batch_size, devices):
    splits = itertools.product(range(batch_size + 1), repeat=len(devices))
    shortest = min(
        checks.step_seconds(split, devices) for split in splits if sum(split) == batch_size
    )
    best = checks.best_split(batch_size, devices)
    assert checks.step_seconds(best, devices) == pytest.approx(shortest)


def equally(batch_size, devices):
    k = len(devices)
    return [batch_size // k + (i < batch_size % k) for i in range(k)]


def in_proportion(batch_size, weights):
    """Share out by weights; the first device gets what rounding leaves."""
    shares = [int(batch_size * w / sum(weights)) for w in weights]
    return [shares[0] + batch_size - sum(shares), *shares[1:]]


RIGHT["split_unequal"] = checks.best_split
WRONG["split_unequal"] = {
    "Equal shares make the fast devices wait": equally,
    "Rounding every share by itself": lambda b, devices: [
        round(b / s / sum(1 / t for _, t in devices)) + 1 for _, s in devices
    ],
    "shares go with images per second": lambda b, devices: in_proportion(
        b, [s for _, s in devices]
    ),
    "Take the fixed seconds into account": lambda b, devices: (
        checks.best_split(b, [(0.0, s) for _, s in devices])
        if b != 100  # where equal shares would be named first
        else [60, 40]
    ),
    "one for each of the 2 devices": lambda b, devices: [b],
    "split_unequal returned None": returns_nothing,
    "must be a whole number": lambda b, devices: [b / 5, *[0] * (len(devices) - 2), 4 * b / 5],
    "but it is a tuple of 2": lambda b, devices: list(devices),
    "changed `devices`: it has 0": lambda b, devices: devices.clear() or [b],
    "not all non-negative integers": lambda b, devices: [b + 1, *[0] * (len(devices) - 2), -1],
    "All devices should end at the same time": lambda b, devices: in_proportion(
        b, [1 / s**2 for _, s in devices]
    ),
}


def in_place(gradients, counts):
    for gradient, count in zip(gradients, counts, strict=True):
        gradient *= count / sum(counts)
    return sum(gradients)


RIGHT["mean_gradient"] = lambda gradients, counts: (
    sum(g * n for g, n in zip(gradients, counts, strict=True)) / sum(counts)
)
WRONG["mean_gradient"] = {
    "a learning rate 2 times as high": lambda gradients, counts: sum(gradients),
    "plain mean over the ranks": lambda gradients, counts: sum(gradients) / len(gradients),
    "wrote into `gradients`": in_place,
    "weight each gradient": lambda gradients, counts: gradients[0],
    "must be a tensor, but it is None": returns_nothing,
    r"must be of shape \(3,\), but is a tensor of shape \(\)": lambda gradients, counts: sum(
        gradients
    ).mean(),
    "is not on its device: it is on cpu": lambda gradients, counts: (
        sum(g.cpu() * n for g, n in zip(gradients, counts, strict=True)) / sum(counts)
    ),
    "gradients on sim:0: the result is off": lambda gradients, counts: (
        sum(g * n for g, n in zip(gradients, counts, strict=True))
        / sum(counts)
        * (gradients[0].device.type == "cpu")
    ),
    "mean_gradient raised RuntimeError.*to the other's device": lambda gradients, counts: (
        torch.tensor(counts, dtype=torch.float64) @ torch.stack(gradients) / sum(counts)
    ),
    "changed `gradients`: it has 0": lambda gradients, counts: (
        sum(gradients.pop(0) * n for n in counts) / sum(counts)
    ),
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
