"""Checkers of how well GPUs are used: images per second, and the share of the peak."""

import math

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker

SHARES = (32, 64, 128, 256)

# Fixed seconds of a step, seconds per image, seconds of communication per additional GPU; number of
# GPUs, and their wanted speed-up.
JOBS = (
    (1e-3, 1e-4, 1e-4, 8, 7),
    (1e-3, 1e-4, 1e-3, 4, 3),
    (1e-3, 1e-4, 1e-3, 8, 7),
    (1e-3, 1e-4, 1e-2, 8, 7),
    (5e-3, 1e-4, 1e-3, 2, 1.8),
)


@checker("smallest_share(step_seconds, shares, k, wanted)")
def check_smallest_share(smallest_share):
    """Check a function that finds the smallest share for which k GPUs scale well.

    Parameters
    ----------
    smallest_share : callable
        ``smallest_share(step_seconds, shares, k, wanted)``, returning the smallest n of `shares`
        with which k GPUs process at least `wanted` times as many images per second as one GPU with
        the same share; None if there is none. ``step_seconds(k, n)`` are the seconds of a step of k
        GPUs with n images each.

    Raises
    ------
    AssertionError
        If it returns another share; the message names the usual mistakes.
    """
    for fixed, each, communication, k, wanted in JOBS:

        def step_seconds(k, n, fixed=fixed, each=each, communication=communication):
            return fixed + n * each + (k - 1) * communication

        for shares in (SHARES, SHARES[::-1]):
            right = smallest_where(step_seconds, shares, k, wanted)
            where = f"shares of {list(shares)}, {wanted} times as fast on {k} GPUs"
            got = smallest_share.at(where)(step_seconds, list(shares), k, wanted)
            if got is not None:
                got = number(got, f"{where}: what smallest_share returns")
            if got != right:
                hint = _explain_share(step_seconds, shares, k, wanted, got)
                raise AssertionError(f"{where}: it is {right}, not {got}. {hint}")
    print("smallest_share: passed")


def smallest_where(step_seconds, shares, k, wanted):
    """Return the right answer; see `check_smallest_share`."""
    enough = (n for n in shares if k * step_seconds(1, n) / step_seconds(k, n) >= wanted)
    return min(enough, default=None)


def _explain_share(step_seconds, shares, k, wanted, got):
    enough = [n for n in shares if k * step_seconds(1, n) >= wanted * step_seconds(k, n)]
    if got is None and not any(step_seconds(1, n) >= wanted * step_seconds(k, n) for n in shares):
        return (
            "A step of k GPUs is never shorter than one GPU's with the same share. It does k times "
            "as many images: compare images per second"
        )
    strong = [n for n in shares if step_seconds(1, k * n) >= wanted * step_seconds(k, n)]
    if got == min(strong, default=None):
        return "Compare with one GPU that has the same share, not with one that has all the images"
    if got in enough:
        return "That is enough, but a smaller share is, too"
    return "k GPUs with n images each do k n images in a step; divide by its seconds"


PEAKS = {"float32": 19.5e12, "tf32": 156e12, "bfloat16": 312e12}


@checker("mfu(net, X, k, seconds, peaks, dtype)")
def check_mfu(mfu):
    """Check a function that computes the share of the GPUs' peak that a training step uses.

    Parameters
    ----------
    mfu : callable
        ``mfu(net, X, k, seconds, peaks, dtype)``, returning the share, from 0 to 1. `net` is a
        network whose outputs are one tensor, `X` the whole minibatch, `k` the number of GPUs,
        `seconds` the time of a step (forward and backward), `peaks` the FLOP/s of one GPU by dtype,
        and `dtype` the one in which the GPU multiplies.

    Raises
    ------
    AssertionError
        If it returns another share; the message names the usual mistakes.
    """
    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    dense = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    for net, X in ((dense, torch.zeros(4, 8)), (conv, torch.zeros(6, 1, 8, 8))):
        once, counted = count_flops(net, X)
        for k, dtype in ((1, "float32"), (4, "tf32"), (8, "bfloat16")):
            where = f"{type(net[0]).__name__}, {len(X)} examples over {k} GPUs, {dtype}"
            got = mfu.at(where)(net, X, k, 2e-9, dict(PEAKS), dtype)
            got = number(got, f"{where}: what mfu returns")
            # Three times the forward pass is the usual estimate; it includes the gradient with
            # respect to the first layer's inputs, which is not computed.
            whole = k * 2e-9 * PEAKS[dtype]
            right = [counted / whole, 3 * once / whole]
            if not any(math.isclose(got, share, rel_tol=1e-6) for share in right):
                hint = _explain_mfu(got, right, once / whole, k, dtype, len(X))
                raise AssertionError(f"{where}: it is {right[0]:.4g}, not {got:.4g}. {hint}")
    print("mfu: passed")


def count_flops(net, X):
    """Return the FLOPs of a forward pass, and of one with its backward pass."""
    with FlopCounterMode(display=False) as counter:
        outputs = net(X)
        once = counter.get_total_flops()
        outputs.sum().backward()
    net.zero_grad()
    return once, counter.get_total_flops()


def _explain_mfu(got, right, forward, k, dtype, num_images):
    def times(factor, shares=tuple(right)):
        return any(math.isclose(got, factor * share, rel_tol=1e-6) for share in shares)

    if times(1, [forward]):
        return "That is the forward pass alone; the backward pass has about twice as many FLOPs"
    if times(2, [forward]):
        return "That is the backward pass alone"
    for other, peak in PEAKS.items():
        if other != dtype and times(PEAKS[dtype] / peak):
            return f"That is the peak for {other}; this step multiplies in {dtype}"
    for factor, hint in (
        (0.5, "A multiplication and an addition are two operations, and peaks count both"),
        (k, f"All {k} GPUs together have {k} times the peak of one"),
        (1 / k, f"X is the whole minibatch; divide by {k} once"),
        (100, "That is in per cent; return a share, from 0 to 1"),
        (1 / num_images, "Those are the FLOPs of one example; X has more"),
    ):
        if times(factor):
            return hint
    return "Divide the FLOPs of a step by its seconds and by the peak of all GPUs together"
