"""The checkers of the concise chapter accept right solutions and name what is wrong with others."""

import itertools

import pytest
import torch
from support.solutions import refuses, returns_nothing
from torch.utils.data import DistributedSampler

from d2lmini.checks import concise as checks


def by_stride(num_images, rank, world_size):
    return torch.arange(num_images)[rank::world_size]


def by_blocks(num_images, rank, world_size):
    return torch.arange(num_images).tensor_split(world_size)[rank]


def by_sampler(num_images, rank, world_size, **options):
    place = {"num_replicas": world_size, "rank": rank}
    return list(DistributedSampler(range(num_images), shuffle=False, **place, **options))


WRONG_SHARES = {
    "evaluated 2 times. A sampler that pads": by_sampler,
    "evaluated by no rank": lambda *a: by_sampler(*a, drop_last=True),
    "there is no image": lambda n, r, w: range(r, n + w, w),
    "shares that differ by at most 1": lambda n, r, w: range(n) if r == 0 else [],
    "my_images returned None": returns_nothing,
    "returned a int, 1; a list is needed": lambda n, r, w: 1,
    "but it is a bool, True": lambda n, r, w: [i % w == r for i in range(n)],
    "must be a whole number, but it is 0.5": lambda n, r, w: [0.5],
}


@pytest.mark.parametrize("right", [by_stride, by_blocks])
def test_my_images_accepts_every_fair_split(right, capsys):
    checks.check_my_images(right)
    assert capsys.readouterr().out == "my_images: passed\n"


@pytest.mark.parametrize("reason", WRONG_SHARES)
def test_my_images_names_the_mistake(reason):
    refuses(checks.check_my_images, WRONG_SHARES[reason], reason)


def mean_of_accuracies(correct, evaluated):
    ratios = [c / e for c, e in zip(correct, evaluated, strict=True) if e]
    return sum(ratios) / len(ratios)


WRONG_ACCURACIES = {
    "mean of the ranks' accuracies": mean_of_accuracies,
    "rank 0's accuracy alone": lambda correct, evaluated: correct[0] / evaluated[0],
    "do not divide by its count": lambda correct, evaluated: (
        sum(c / e * e for c, e in zip(correct, evaluated, strict=True)) / sum(evaluated)
    ),
    "then divide once": lambda correct, evaluated: 0.5,
    "number of right answers": lambda correct, evaluated: sum(correct),
    "in per cent": lambda correct, evaluated: 100 * sum(correct) / sum(evaluated),
    "must be a number, but it is None": returns_nothing,
    "changed `correct`: it has 0": lambda correct, evaluated: (
        sum(correct.pop() for _ in evaluated) / sum(evaluated)
    ),
}


def test_total_accuracy_accepts_the_ratio_of_sums(capsys):
    checks.check_total_accuracy(lambda correct, evaluated: sum(correct) / sum(evaluated))
    assert capsys.readouterr().out == "total_accuracy: passed\n"


@pytest.mark.parametrize("reason", WRONG_ACCURACIES)
def test_total_accuracy_names_the_mistake(reason):
    refuses(checks.check_total_accuracy, WRONG_ACCURACIES[reason], reason)


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


WRONG_SPLITS = {
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
    "not all whole numbers": lambda b, devices: [b + 1, *[0] * (len(devices) - 2), -1],
    "All devices should end at the same time": lambda b, devices: in_proportion(
        b, [1 / s**2 for _, s in devices]
    ),
}


def test_split_unequal_accepts_the_best(capsys):
    checks.check_split_unequal(checks.best_split)
    assert capsys.readouterr().out == "split_unequal: passed\n"


@pytest.mark.parametrize("reason", WRONG_SPLITS)
def test_split_unequal_names_the_mistake(reason):
    refuses(checks.check_split_unequal, WRONG_SPLITS[reason], reason)


def in_place(gradients, counts):
    for gradient, count in zip(gradients, counts, strict=True):
        gradient *= count / sum(counts)
    return sum(gradients)


WRONG_GRADIENTS = {
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


def test_mean_gradient_accepts_the_weighted_mean(capsys):
    checks.check_mean_gradient(
        lambda gradients, counts: (
            sum(g * n for g, n in zip(gradients, counts, strict=True)) / sum(counts)
        )
    )
    assert capsys.readouterr().out == "mean_gradient: passed\n"


@pytest.mark.parametrize("reason", WRONG_GRADIENTS)
def test_mean_gradient_names_the_mistake(reason):
    refuses(checks.check_mean_gradient, WRONG_GRADIENTS[reason], reason)


def run_well(step, num_steps, max_in_flight):
    events = []
    for _ in range(num_steps):
        if len(events) == max_in_flight:
            events.pop(0).synchronize()
        events.append(step())
    for event in events:
        event.synchronize()


def run_without_wait(step, num_steps, max_in_flight):
    for _ in range(num_steps):
        event = step()
    event.synchronize()


def run_with_wait_for_the_newest(step, num_steps, max_in_flight):
    for i in range(num_steps):
        event = step()
        if (i + 1) % max_in_flight == 0:
            event.synchronize()
    event.synchronize()


def run_one_at_a_time(step, num_steps, max_in_flight):
    for _ in range(num_steps):
        step().synchronize()


def run_without_the_end(step, num_steps, max_in_flight):
    events = []
    for _ in range(num_steps):
        if len(events) == max_in_flight:
            events.pop(0).synchronize()
        events.append(step())


def run_one_too_few(step, num_steps, max_in_flight):
    run_well(step, num_steps - 1, max_in_flight)


WRONG_LOOPS = {
    "Without a wait the host launches everything": run_without_wait,
    "not for the newest, and not for all": run_with_wait_for_the_newest,
    "the device idles": run_one_at_a_time,
    "returns before the last steps are done": run_without_the_end,
    "9 steps were launched": run_one_too_few,
    "0 steps were launched": lambda step, num_steps, max_in_flight: step,
    "run_steps raised AttributeError.*is a `return` missing": lambda step, n, m: (
        step() and None
    ).synchronize(),
}


def test_run_steps_accepts_a_bounded_queue(capsys):
    checks.check_run_steps(run_well)
    assert capsys.readouterr().out == "run_steps: passed\n"


@pytest.mark.parametrize("reason", WRONG_LOOPS)
def test_run_steps_names_the_mistake(reason):
    refuses(checks.check_run_steps, WRONG_LOOPS[reason], reason)
