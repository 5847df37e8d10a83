"""The chapter on automatic parallelism: what is timed, and which remedies mend a race."""

from statistics import median

import torch

import simgpu as sim
from d2lmini.devices import gpus
from d2lmini.streams import Stream, current_stream, empty_pinned
from d2lmini.timing import Timer, synchronize
from simgpu import device_name


def median_seconds(devices, function, *args, repeats=4):
    """Return the median time of a function on devices, after a first run to warm up.

    Parameters
    ----------
    devices : list of torch.device
        Those to wait for.
    function : callable
        Called with `args`; its result is dropped after each run.
    repeats : int, default 4
        Runs, the first included.
    """
    timer = Timer(*devices)
    for _ in range(repeats):
        timer.start()
        result = function(*args)
        timer.stop()
        del result
    return median(timer.times[1:])


def engine_shares(timeline, device):
    """Return for what shares of the time a device computes, and copies to the host."""
    busy = timeline.busy()
    return [busy[device_name(device), engine] for engine in ("compute", "d2h")]


def has_race(remedy):
    """Return whether it is a race to drop a tensor while another stream copies it to the host.

    Parameters
    ----------
    remedy : {"none", "keep", "record_stream"}
        What the program does about it.
    """
    (device,) = gpus(1, gpu="a100", quiet=True)  # where races can be found
    side, buffer = Stream(device), empty_pinned(500, 500, device=device)
    try:
        with sim.check_races():
            _copy_and_drop(remedy, side, buffer)
    except sim.RaceError:
        return True
    finally:
        synchronize(device)
    return False


def _copy_and_drop(remedy, side, buffer):
    device = side.device
    x = torch.rand(buffer.shape).to(device)
    y, kept = x @ x, []
    side.wait_event(current_stream(device).record_event())
    with side:
        buffer.copy_(y, non_blocking=True)
    if remedy == "keep":
        kept.append(y)
    if remedy == "record_stream":
        y.record_stream(side)
    del y
    return x + x, kept


def times_alone(devices, sources, targets):
    """Return the times of all copies and products of the GPUs, each kind of work alone.

    Parameters
    ----------
    devices : list of torch.device
    sources, targets : list of list of torch.Tensor
        For each device, the matrices in pinned memory that it squares, and where the squares go.
    """
    timer = Timer(*devices)
    for device, ins, outs in zip(devices, sources, targets, strict=True):
        timer.start()
        ys = [source.to(device, non_blocking=True) for source in ins]
        timer.stop()
        timer.start()
        ys = [y @ y for y in ys]
        timer.stop()
        timer.start()
        for y, out in zip(ys, outs, strict=True):
            out.copy_(y, non_blocking=True)
        timer.stop()
    return timer.times
