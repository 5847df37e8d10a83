"""Checkers for the exercise of the page on unequal devices."""

import torch

import simgpu as sim
from d2lmini.checks.shared.results import tensor, whole_number
from d2lmini.checks.shared.solution import checker
from d2lmini.devices import device_name

# Batch size, and for each device: fixed seconds per step, and seconds per image.
UNEQUAL_DEVICES = (
    (12, [(0.0, 1.0), (0.0, 1.0)]),
    (12, [(0.0, 1.0), (0.0, 3.0)]),
    (10, [(0.0, 1.0), (0.0, 2.0), (0.0, 4.0)]),
    (256, [(0.002, 0.0001), (0.002, 0.004)]),
    (100, [(2.0, 1.0), (30.0, 1.0)]),
    (8, [(0.0, 1.0), (50.0, 1.0)]),
)


@checker("split_unequal(batch_size, devices)")
def check_split_unequal(split_unequal):
    """Check a function that splits a batch over devices of different speed.

    A device with n > 0 images takes fixed + n * per_image seconds, a device without images takes
    none, and the step takes as long as the slowest device.

    Parameters
    ----------
    split_unequal : callable
        ``split_unequal(batch_size, devices)``, returning the number of images for each device;
        `devices` has a pair (fixed, per_image) of seconds for each.

    Raises
    ------
    AssertionError
        If the numbers do not add up to the batch, or another split makes the step shorter.
    """
    for batch_size, devices in UNEQUAL_DEVICES:
        where = f"{batch_size} images on devices {devices}"
        given = split_unequal.at(where)
        counts = given.items(given(batch_size, list(devices)))
        assert len(counts) == len(devices), (
            f"{where}: {len(counts)} numbers; one for each of the {len(devices)} devices is needed"
        )
        counts = [
            whole_number(count, f"{where}: a number of images that split_unequal returns")
            for count in counts
        ]
        assert min(counts) >= 0, f"{where}: {counts} are not all non-negative integers"
        assert sum(counts) == batch_size, (
            f"{where}: {counts} are {sum(counts)} images. Rounding every share by itself loses or "
            "adds some; hand out the rest where it costs least"
        )
        best, got = best_split(batch_size, devices), step_seconds(counts, devices)
        shortest = step_seconds(best, devices)
        assert got <= shortest * (1 + 1e-9), (
            f"{where}: {counts} takes {got:.6g} s, {best} only {shortest:.6g} s. "
            f"{_explain_split(counts, batch_size, devices)}"
        )
    print("split_unequal: passed")


def step_seconds(counts, devices):
    """Return the time of a step, in seconds; see `check_split_unequal`."""
    return max(f + n * s if n else 0.0 for n, (f, s) in zip(counts, devices, strict=True))


def best_split(batch_size, devices):
    """Return a split with the shortest step; see `check_split_unequal`.

    Each image goes to the device that would finish it first. So the split uses the `batch_size`
    smallest of the times at which the devices can finish their first, second, third, ... image; no
    other choice of as many times has a smaller maximum.
    """
    counts = [0] * len(devices)
    for _ in range(batch_size):
        ends = [f + (n + 1) * s for n, (f, s) in zip(counts, devices, strict=True)]
        counts[ends.index(min(ends))] += 1
    return counts


def _explain_split(counts, batch_size, devices):
    if max(counts) - min(counts) <= 1:
        return "Equal shares make the fast devices wait for the slowest"
    slow = [s for _, s in devices]
    if max(slow) > min(slow) and counts[slow.index(max(slow))] == max(counts):
        return "The slowest device got most: shares go with images per second, not with seconds"
    if any(f for f, _ in devices):
        return "Take the fixed seconds into account; a device may be best left idle"
    return "All devices should end at the same time, as nearly as whole images allow"


@checker("mean_gradient(gradients, counts)")
def check_mean_gradient(mean_gradient):
    """Check a function that combines the gradients of unequal shares.

    Parameters
    ----------
    mean_gradient : callable
        ``mean_gradient(gradients, counts)``, returning the gradient of the mean loss over all
        images, from each rank's gradient of the *mean* loss over its share, and the sizes of the
        shares. The gradients are on one device, and the result must be there, too.

    Raises
    ------
    AssertionError
        If the result is not that gradient; the message names the usual mistakes.
    """
    generator = torch.Generator().manual_seed(0)
    for counts in ([4, 4], [4, 3], [1, 5, 2]):
        single = torch.rand(sum(counts), 3, generator=generator, dtype=torch.float64)
        gradients, wanted = [share.mean(0) for share in single.split(counts)], single.mean(0)
        for device in (torch.device("cpu"), *sim.configure(1)):
            _check_mean(mean_gradient, gradients, counts, wanted, device)
    print("mean_gradient: passed")


def _check_mean(mean_gradient, gradients, counts, wanted, device):
    """Call the solution on one device; raise AssertionError unless it returns `wanted`."""
    where = f"shares of {counts} images, gradients on {device_name(device)}"
    moved = [gradient.to(device) for gradient in gradients]
    got = mean_gradient.at(where)(moved, list(counts))
    got = tensor(got, f"{where}: what mean_gradient returns", wanted.shape, device).cpu().double()
    if torch.allclose(got, wanted):
        return
    total, hint = sum(gradients), "weight each gradient by its share of the images"
    if torch.allclose(got, total):
        hint = f"that is the sum over the ranks, a learning rate {len(counts)} times as high"
    elif torch.allclose(got, total / len(counts)):
        hint = f"that is the plain mean over the ranks, as if shares were equal; {hint}"
    raise AssertionError(f"{where}: the result is off; {hint}")
