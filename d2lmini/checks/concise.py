"""Checkers for the exercises of the chapter on `DistributedDataParallel`."""

import math
from itertools import pairwise

import torch

from d2lmini import sim
from d2lmini.checks import _slow_machine
from d2lmini.checks._results import number, tensor, whole_number
from d2lmini.checks._solution import checker
from d2lmini.checks.ddp import check_measure_accuracy, check_update  # noqa: F401
from d2lmini.devices import device_name

SIZES = (1, 2, 3, 10, 11, 12, 13)
WORLD_SIZES = (1, 2, 3)


@checker("my_images(num_images, rank, world_size)")
def check_my_images(my_images):
    """Check a function that shares a test set out to ranks.

    Parameters
    ----------
    my_images : callable
        ``my_images(num_images, rank, world_size)`` returning the indices of the images that this
        rank evaluates.

    Raises
    ------
    AssertionError
        If an image is evaluated twice or not at all, or a rank has two more than another.
    """
    for num_images in SIZES:
        for world_size in WORLD_SIZES:
            where = f"{num_images} images on {world_size} ranks"
            given = my_images.at(where)
            shares = [
                given.items(given(num_images, rank, world_size)) for rank in range(world_size)
            ]
            what = f"{where}: an index that my_images returns"
            shares = [[whole_number(index, what) for index in share] for share in shares]
            _check_shares(shares, num_images, where)
    print("my_images: passed")


def _check_shares(shares, num_images, where):
    seen = sorted(index for share in shares for index in share)
    outside = [index for index in seen if not 0 <= index < num_images]
    assert not outside, f"{where}: there is no image {outside[0]}"
    twice = sorted({a for a, b in pairwise(seen) if a == b})
    assert not twice, (
        f"{where}: image {twice[0]} is evaluated {seen.count(twice[0])} times. A sampler that "
        "pads, as DistributedSampler does, repeats images until all ranks have equally many; in "
        "an evaluation no rank has to wait for the others, so give them unequal shares"
    )
    missing = sorted(set(range(num_images)) - set(seen))
    assert not missing, (
        f"{where}: image {missing[0]} is evaluated by no rank. Leaving out the rest "
        "(drop_last=True) changes the accuracy too"
    )
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1, (
        f"{where}: the shares have {sizes} images; the largest decides how long it takes, and "
        "shares that differ by at most 1 are possible"
    )


@checker("total_accuracy(correct, evaluated)")
def check_total_accuracy(total_accuracy):
    """Check a function that puts the ranks' counts together.

    Parameters
    ----------
    total_accuracy : callable
        ``total_accuracy(correct, evaluated)``, two lists with one count per rank, returning the
        accuracy on the whole test set.

    Raises
    ------
    AssertionError
        If the result is not the share of correct images; the message names the usual mistakes.
    """
    for correct, evaluated in (([3, 2], [4, 4]), ([4, 0], [4, 1]), ([1, 2, 0], [1, 3, 0])):
        wanted, where = sum(correct) / sum(evaluated), f"{correct} of {evaluated} correct"
        try:
            got = total_accuracy.at(where)(list(correct), list(evaluated))
        except AssertionError as error:
            if isinstance(error.__cause__, ZeroDivisionError):
                hint = "a rank may have no image at all; do not divide by its count"
                raise AssertionError(f"{error}: {hint}") from error.__cause__
            raise
        got = number(got, f"{where}: the accuracy that total_accuracy returns")
        if math.isclose(got, wanted):
            continue
        ratios = [c / e for c, e in zip(correct, evaluated, strict=True) if e]
        hint = "add the counts up over the ranks, then divide once"
        if math.isclose(got, sum(ratios) / len(ratios)):
            hint = f"that is the mean of the ranks' accuracies, which weighs ranks equally; {hint}"
        elif math.isclose(got, ratios[0]):
            hint = f"that is rank 0's accuracy alone; {hint}"
        elif math.isclose(got, sum(correct)):
            hint = f"that is the number of right answers; {hint}"
        elif math.isclose(got, 100 * wanted):
            hint = "that is in per cent; return a share, from 0 to 1"
        raise AssertionError(f"{where}: the accuracy is {wanted:.4f}, not {got:.4f}: {hint}")
    print("total_accuracy: passed")


# Per device: seconds that a step takes however few images it has, and seconds per image.
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

    A device that gets n > 0 images takes fixed + n * per_image seconds, one that gets none takes
    none, and the step takes as long as the slowest device.

    Parameters
    ----------
    split_unequal : callable
        ``split_unequal(batch_size, devices)``, `devices` being one pair (fixed, per_image) of
        seconds for each device, returning one number of images for each device.

    Raises
    ------
    AssertionError
        If images are lost or made up, or another split makes the step shorter.
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
        assert min(counts) >= 0, f"{where}: {counts} are not all whole numbers from 0 on"
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
    """Return how long a step takes, in seconds; see `check_split_unequal`."""
    return max(f + n * s if n else 0.0 for n, (f, s) in zip(counts, devices, strict=True))


def best_split(batch_size, devices):
    """Return a split with the shortest step; see `check_split_unequal`.

    The next image goes where it would be done first. So the batch takes, of all the times at which
    the devices can be done with their first, second, third, ... image, the `batch_size` smallest;
    no other choice of as many times has a smaller largest one.
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
    """Check a function that puts the gradients of unequal shares together.

    Parameters
    ----------
    mean_gradient : callable
        ``mean_gradient(gradients, counts)``: each rank's gradient of the *mean* loss over its
        share, and the sizes of the shares; returning the gradient of the mean over all images.
        The gradients are on one device, and the result is to be there, too.

    Raises
    ------
    AssertionError
        If it is not that gradient; the message names the usual mistakes.
    """
    generator = torch.Generator().manual_seed(0)
    for counts in ([4, 4], [4, 3], [1, 5, 2]):
        single = torch.rand(sum(counts), 3, generator=generator, dtype=torch.float64)
        gradients, wanted = [share.mean(0) for share in single.split(counts)], single.mean(0)
        for device in (torch.device("cpu"), *sim.configure(1)):
            _check_mean(mean_gradient, gradients, counts, wanted, device)
    print("mean_gradient: passed")


def _check_mean(mean_gradient, gradients, counts, wanted, device):
    """Let it join gradients on one device; refuse any other result than the wanted mean."""
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


NUM_STEPS = 10


@checker("run_steps(step, num_steps, max_in_flight)")
def check_run_steps(run_steps):
    """Check a loop that lets the host run ahead of the device, but not too far.

    Parameters
    ----------
    run_steps : callable
        ``run_steps(step, num_steps, max_in_flight)``: ``step()`` launches one step and returns an
        event that is done when the step is; ``event.synchronize()`` waits for it. At most
        `max_in_flight` steps may be launched and not done, and none when it returns.

    Raises
    ------
    AssertionError
        If steps are missing, too many are in flight, the device idles although more were allowed,
        or the last steps are not waited for.
    """
    for limit in (1, 2, 4):
        (device,) = sim.configure(1, gpu=_slow_machine.GPU, link=_slow_machine.LINK)
        X = _slow_machine.matrices(1)[0].to(device)
        sim.synchronize()
        sim.reset()
        events, in_flight = [], []

        def step(X=X, events=events, in_flight=in_flight):
            if len(events) == 10 * NUM_STEPS:
                raise AssertionError(f"more steps were launched than the {NUM_STEPS} asked for")
            X @ X
            events.append(sim.Event())
            events[-1].record()
            in_flight.append(sum(not event.query() for event in events))
            return events[-1]

        run_steps.at(f"at most {limit} in flight")(step, NUM_STEPS, limit)
        _check_run(events, in_flight, limit)
    print("run_steps: passed")


def _check_run(events, in_flight, limit):
    where = f"{NUM_STEPS} steps, at most {limit} in flight"
    assert len(events) == NUM_STEPS, f"{where}: {len(events)} steps were launched"
    assert max(in_flight) <= limit, (
        f"{where}: {max(in_flight)} were. Without a wait the host launches everything at once: "
        "memory that it lends to the steps, such as pinned buffers, is lent to all of them "
        "together, and what you measure is how long launching takes. Wait for the oldest step "
        "before you launch the next"
    )
    assert all(event.query() for event in events), (
        f"{where}: the loop returns before the last steps are done; wait for them, or the time "
        "measured leaves them out"
    )
    spans = [span for span in sim.trace() if span.engine == "compute"]
    idle = spans[-1].end - spans[0].start - sum(span.duration for span in spans)
    assert limit == 1 or idle <= _slow_machine.EPSILON, (
        f"{where}: the device idles for {idle * 1e6:.3g} microseconds, since at times nothing is "
        "launched ahead. Wait for the oldest step in flight, not for the newest, and not for all"
    )
