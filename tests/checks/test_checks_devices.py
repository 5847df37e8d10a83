"""The checkers of the devices chapter accept right solutions and name what is wrong with others."""

import torch
from support.samples.solutions import make_tests, returns_nothing

from d2lmini import sim
from d2lmini.checks import devices as checks

RIGHT, WRONG = {}, {}


def right_predict(gpu, n, count, *, num_bytes=12, launch=None):
    kernel, launch = gpu.seconds(2 * n**3, num_bytes * n**2), launch or gpu.launch_overhead
    return launch + (count - 1) * max(kernel, launch) + kernel


RIGHT["predict"] = right_predict
WRONG["predict"] = {
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
    "float32 has 4 bytes": lambda g, n, c: right_predict(g, n, c, num_bytes=3),
    "two matrices and writes a third": lambda g, n, c: right_predict(g, n, c, num_bytes=8),
    "Memory can limit a product": lambda g, n, c: right_predict(g, n, c, num_bytes=0),
    "not the same on every GPU": lambda g, n, c: right_predict(g, n, c, launch=5e-6),
    "milliseconds; return seconds": lambda g, n, c: 1e3 * right_predict(g, n, c),
    "microseconds; return seconds": lambda g, n, c: 1e6 * right_predict(g, n, c),
    "Compare with the trace": lambda g, n, c: 1.0,
    "must be a number, but it is None": returns_nothing,
    "must be a number, but it is a tuple of 2": lambda g, n, c: (right_predict(g, n, c), "s"),
    "predicted nan": lambda g, n, c: float("nan"),
}


def right_batch(gpu, width, *, weights=1, bias=1, sides=2, flops=2, launch=None):
    batch, numbers = 1, weights * (width**2 + bias * width)
    while gpu.seconds(flops * batch * width**2, 4 * (numbers + sides * batch * width)) < (
        launch or gpu.launch_overhead
    ):
        batch += 1
    return batch


RIGHT["smallest_batch"] = right_batch
WRONG["smallest_batch"] = {
    "must be larger": (
        lambda g, w: right_batch(g, w) - 1 or 1,
        lambda g, w: 1,
        lambda g, w: right_batch(g, w, launch=5e-6),
    ),
    "not the smallest": (
        lambda g, w: right_batch(g, w) + 1,
        lambda g, w: 10**5,
    ),
    "input, weights, bias and output": (
        lambda g, w: right_batch(g, w, weights=0),
        lambda g, w: right_batch(g, w, sides=1),
    ),
    "a multiplication and an addition": lambda g, w: right_batch(g, w, flops=1),
    "bytes of the bias are missing": lambda g, w: right_batch(g, w, bias=0),
    "far from the smallest": lambda g, w: 10**6,
    "must be a whole number, but it is 32.5": lambda g, w: 32.5,
    "integer of 1 or more": lambda g, w: 0,
    "must be a number, but it is None": returns_nothing,
    "must be a number, but it is a range": lambda g, w: range(1, right_batch(g, w)),
}


def ping_pong(devices, rounds=10):
    x = torch.eye(64)
    for i in range(rounds):
        x = x.to(devices[i % len(devices)])
        x = x @ x
    return x


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


RIGHT["slower_on_two"] = ping_pong
WRONG["slower_on_two"] = {
    "exchange more": side_by_side,
    "same work": more_work_on_two,
    "another result": (other_result, lambda devices: ping_pong(devices)[: len(devices)]),
    "sim:1 has nothing to compute": lambda devices: ping_pong(devices[:1]),
    "sim:0, sim:1 has nothing to compute": lambda devices: ping_pong(["cpu"]),
    "only they have": lambda devices: sum(torch.ones(9, device=d) for d in 4 * devices[:1]),
    "must be a tensor, but it is None": returns_nothing,
    "must be a tensor, but it is a list of 1": lambda devices: [ping_pong(devices)],
    "changed `devices`: it has 0 instead of 1": lambda devices: ping_pong([devices.pop()]),
    "copy one to the other's device": without_copies,
}


def chain(
    gpu, n, c, *, moved=8, call=50e-6, launches=1, kernels=1, flops=0, extra=0, launch=0, waits=1
):
    """Return both times; the options are mistakes."""
    launch = launch or gpu.launch_overhead
    kernel = gpu.seconds(flops * n, moved * n) + extra * gpu.kernel_overhead
    eager = launch + (c - 1) * (max(kernel, launch) if waits else kernel) + kernel
    return eager, call + launches * launch + kernels * kernel


def without_the_last(gpu, size, count):
    eager, compiled = chain(gpu, size, count)
    return eager - gpu.seconds(0, 8 * size), compiled


def eager_right(**mistakes):
    """Return a solution whose eager time is right, and whose compiled time is mistaken."""
    return lambda g, n, c: (chain(g, n, c)[0], chain(g, n, c, **mistakes)[1])


RIGHT["chain"] = chain
WRONG["chain"] = {
    "8 bytes": (
        lambda g, n, c: chain(g, n, c, moved=4),
        eager_right(moved=4),
    ),
    "wait for theirs": lambda g, n, c: chain(g, n, c, waits=0),
    "does not wait": lambda g, n, c: (
        c * (g.launch_overhead + g.seconds(0, 8 * n)), chain(g, n, c)[1]
    ),
    "call of the graph": lambda g, n, c: chain(g, n, c, call=0),
    "launched, too": lambda g, n, c: chain(g, n, c, launches=0),
    "One kernel": lambda g, n, c: chain(g, n, c, kernels=c),
    "reads and writes each number once": lambda g, n, c: (
        chain(g, n, c)[0], chain(g, c * n, 1)[1]
    ),
    "one launch": lambda g, n, c: chain(g, n, c, launches=c),
    "eager one first, then the compiled one": lambda g, n, c: chain(g, n, c)[::-1],
    "eager: .*includes kernel_overhead": lambda g, n, c: chain(g, n, c, extra=1),
    "compiled: .*includes kernel_overhead": eager_right(extra=1),
    "The last kernel still runs": without_the_last,
    "The kernel still runs": eager_right(kernels=0),
    "eager: .*not the same on every GPU": lambda g, n, c: chain(g, n, c, launch=5e-6),
    "compiled: .*not the same on every GPU": eager_right(launch=5e-6),
    "eager: .*FLOPs do not count": lambda g, n, c: chain(g, n, c, flops=1),
    "compiled: .*FLOPs do not count": lambda g, n, c: (
        chain(g, n, c)[0], chain(g, n, c, flops=c)[1]
    ),
    "milliseconds; return seconds": lambda g, n, c: [1e3 * t for t in chain(g, n, c)],
    "microseconds; return seconds": lambda g, n, c: [1e6 * t for t in chain(g, n, c)],
    "Count launches": lambda g, n, c: (1.0, 1.0),
    "returns two times": (returns_nothing, lambda g, n, c: chain(g, n, c)[0]),
    "must be a number, but it is a str": lambda g, n, c: ("a", "b"),
}  # fmt: skip


def test_checkers_leave_a_usable_machine():
    checks.check_predict(right_predict)
    assert torch.ones(2, device=sim.configure(1)[0]).sum().item() == 2


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
