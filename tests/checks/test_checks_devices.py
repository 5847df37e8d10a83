"""The checkers of the devices chapter accept right solutions and name what is wrong with others."""

import math

import pytest
import torch
from support.solutions import refuses, returns_nothing

from d2lmini import sim
from d2lmini.checks import devices as checks


def right_predict(gpu, n, count):
    kernel, launch = gpu.seconds(2 * n**3, 3 * 4 * n**2), gpu.launch_overhead
    return launch + (count - 1) * max(kernel, launch) + kernel


def test_predict_accepts_the_formula(capsys):
    checks.check_predict(right_predict)
    assert capsys.readouterr().out == "predict: passed\n"


WRONG_PREDICTIONS = {
    "cannot start before it was launched": lambda g, n, c: c * g.seconds(2 * n**3, 3 * 4 * n**2),
    "short kernels wait": lambda g, n, c: g.launch_overhead + c * g.seconds(2 * n**3, 3 * 4 * n**2),
    "does not wait for a kernel": lambda g, n, c: (
        c * (g.launch_overhead + g.seconds(2 * n**3, 3 * 4 * n**2))
    ),
    "still runs": lambda g, n, c: c * g.launch_overhead,
    "only the last kernel": lambda g, n, c: (
        g.launch_overhead + c * max(g.seconds(2 * n**3, 3 * 4 * n**2), g.launch_overhead)
    ),
    "compute_efficiency": lambda g, n, c: (
        c * g.launch_overhead + g.kernel_overhead + 2 * n**3 / g.flops["float32"]
    ),
    "as many additions": lambda g, n, c: c * g.launch_overhead + g.seconds(n**3, 3 * 4 * n**2),
    "takes kernel_overhead": lambda g, n, c: (
        g.launch_overhead
        + (c - 1) * max(g.seconds(2 * n**3, 12 * n**2) - g.kernel_overhead, g.launch_overhead)
        + g.seconds(2 * n**3, 12 * n**2)
        - g.kernel_overhead
    ),
    "Compare with the trace": lambda g, n, c: 1.0,
    "must be a number, but it is None": returns_nothing,
    "must be a number, but it is a tuple of 2": lambda g, n, c: (right_predict(g, n, c), "s"),
    "predicted nan": lambda g, n, c: float("nan"),
}


@pytest.mark.parametrize("reason", WRONG_PREDICTIONS)
def test_predict_names_the_mistake(reason):
    refuses(checks.check_predict, WRONG_PREDICTIONS[reason], reason)


def right_batch(gpu, width, weights=1, sides=2):
    batch = 1
    while (
        gpu.seconds(
            2 * batch * width**2, 4 * (weights * (width**2 + width) + sides * batch * width)
        )
        < gpu.launch_overhead
    ):
        batch += 1
    return batch


def test_smallest_batch_accepts_the_formula(capsys):
    checks.check_smallest_batch(right_batch)
    assert capsys.readouterr().out == "smallest_batch: passed\n"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda g, w: right_batch(g, w) - 1 or 1, "must be larger"),
        (lambda g, w: right_batch(g, w) + 1, "not the smallest"),
        (lambda g, w: 1, "must be larger"),
        (lambda g, w: right_batch(g, w, weights=0), "input, weights, bias and output"),
        (lambda g, w: right_batch(g, w, sides=1), "input, weights, bias and output"),
        (lambda g, w: 10**5, "not the smallest"),
        (lambda g, w: 10**6, "far from the smallest"),
        (lambda g, w: 32.5, "must be a whole number, but it is 32.5"),
        (lambda g, w: 0, "integer of 1 or more"),
        (returns_nothing, "must be a number, but it is None"),
        (lambda g, w: range(1, right_batch(g, w)), "must be a number, but it is a range"),
    ],
)
def test_smallest_batch_names_the_mistake(wrong, reason):
    refuses(checks.check_smallest_batch, wrong, reason)


def ping_pong(devices, rounds=10):
    x = torch.eye(64)
    for i in range(rounds):
        x = x.to(devices[i % len(devices)])
        x = x @ x
    return x


def test_slower_on_two_accepts_ping_pong(capsys):
    checks.check_slower_on_two(ping_pong)
    assert capsys.readouterr().out == "slower on two: passed\n"


def side_by_side(devices):
    """Faster on two, as it should be in earnest: independent products, no exchange."""
    halves = [torch.ones(500, 500, device=devices[i % len(devices)]) for i in range(2)]
    for _ in range(20):
        halves = [half @ half / 500 for half in halves]
    return torch.cat([half.cpu() for half in halves])


def more_work_on_two(devices):
    x = torch.eye(64)
    for i in range(10 * len(devices)):
        x = x.to(devices[i % len(devices)])
        x = x @ x
    return x


def other_result(devices):
    return ping_pong(devices) + len(devices)


def without_copies(devices):
    return sum(torch.eye(64, device=device) for device in devices)


def test_slower_on_two_names_the_mistake():
    for wrong, reason in [
        (side_by_side, "exchange more"),
        (more_work_on_two, "same work"),
        (other_result, "another result"),
        (lambda devices: ping_pong(devices[:1]), "sim:1 has nothing to compute"),
        (lambda devices: ping_pong(["cpu"]), "sim:0, sim:1 has nothing to compute"),
        (lambda devices: sum(torch.ones(9, device=d) for d in 4 * devices[:1]), "only they have"),
        (returns_nothing, "must be a tensor, but it is None"),
        (lambda devices: [ping_pong(devices)], "must be a tensor, but it is a list of 1"),
        (lambda devices: ping_pong(devices)[: len(devices)], "another result"),
        (lambda devices: ping_pong([devices.pop()]), "changed `devices`: it has 0 instead of 1"),
        (without_copies, "copy one to the other's device"),
    ]:
        refuses(checks.check_slower_on_two, wrong, reason)


BYTES = {"sgd": 8, "momentum": 12, "adam": 16}


def test_training_bytes_accepts_the_count(capsys):
    checks.check_training_bytes(lambda n, optimizer: BYTES[optimizer] * n)
    assert capsys.readouterr().out == "training_bytes: passed\n"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n, optimizer: 4 * n,  # parameters alone
        lambda n, optimizer: 8 * n,  # forgets what the optimiser keeps
        lambda n, optimizer: (BYTES[optimizer] - 4) * n,  # forgets the gradients
        lambda n, optimizer: 16 * n,  # Adam for all
    ],
)
def test_training_bytes_names_the_mistake(wrong):
    refuses(checks.check_training_bytes, wrong, "Count parameters, gradients")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (returns_nothing, "must be a number, but it is None"),
        (lambda n, optimizer: f"{BYTES[optimizer]} GB", "must be a number, but it is a str"),
        (lambda n, optimizer: {"sgd": 8 * n}[optimizer], "training_bytes raised KeyError"),
        (lambda n, optimizer: BYTES[optimizer], "8.0 per parameter and not 0.0"),
    ],
)
def test_training_bytes_names_what_is_no_number_of_bytes(wrong, reason):
    refuses(checks.check_training_bytes, wrong, reason)


LARGEST = torch.finfo(torch.float16).max


def right_scale(gradients):
    """The largest power of two, by halving and doubling."""
    largest, scale = max(g.abs().max().item() for g in gradients), 1.0
    while largest * scale > LARGEST:
        scale /= 2
    while 2 * largest * scale <= LARGEST:
        scale *= 2
    return scale


def scale_of(largest):
    """Choose a scale from what is taken for the largest gradient."""
    return 2.0 ** math.floor(math.log2(LARGEST / largest))


def test_loss_scale_accepts_the_largest_power_of_two(capsys):
    checks.check_loss_scale(right_scale)
    checks.check_loss_scale(lambda g: torch.tensor(right_scale(g)))
    assert capsys.readouterr().out == 2 * "loss_scale: passed\n"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda g: LARGEST / max(x.abs().max().item() for x in g), "is not a power of two"),
        (lambda g: 2 * right_scale(g), "becomes infinite in float16"),
        (lambda g: scale_of(g[0].abs().max().item()), "becomes infinite"),  # the first layer alone
        (lambda g: scale_of(max(x.max().item() for x in g)), "absolute values"),
        (lambda g: scale_of(max(x.abs().mean().item() for x in g)), "becomes infinite"),
        (lambda g: 2.0**16, "is not the largest scale"),  # a constant
        (lambda g: max(right_scale(g), 1.0), "becomes infinite"),  # never makes them smaller
        (lambda g: right_scale(g) / 2, "with the larger one fewer gradients become 0"),
        (lambda g: 2.0 ** math.ceil(math.log2(1 / max(x.abs().max() for x in g))), "not the large"),
        (lambda g: 1.0, "not the largest"),  # as for bfloat16
        (lambda g: 0.0, "a scale is a positive number"),
        (lambda g: math.inf, "a scale is a positive number"),
        (returns_nothing, "must be a number, but it is None"),
        (lambda g: [right_scale(g)], "must be a number, but it is a list of 1"),
    ],
)
def test_loss_scale_names_the_mistake(wrong, reason):
    refuses(checks.check_loss_scale, wrong, reason)


def test_checkers_leave_a_usable_machine():
    checks.check_training_bytes(lambda n, optimizer: BYTES[optimizer] * n)
    assert torch.ones(2, device=sim.configure(1)[0]).sum().item() == 2
