"""Loops that wait for a truth value, in runs that keep shapes only: they would never end."""

import weakref

from simgpu import user_frame

MOST_READS = 10_000  # in a row by one line
FEW_KERNELS = 100  # between two of them: fewer than a training step has

_reads = weakref.WeakKeyDictionary()  # device -> line, kernels until then, and reads in a row


def check(device) -> None:
    """Count a read of an unknown truth value; raise if one line has done little else for long.

    Parameters
    ----------
    device : Device
        Where the value is.

    Raises
    ------
    RuntimeError
        After `MOST_READS` reads with fewer than `FEW_KERNELS` kernels between them.
    """
    line, kernels = user_frame.line(), device.kernels.total()
    before, at, count = _reads.get(device, ("", 0, 0))
    count = count + 1 if line == before and kernels - at < FEW_KERNELS else 1
    _reads[device] = line, kernels, count
    if count > MOST_READS:
        del _reads[device]
        raise RuntimeError(
            f"{line} has read a truth value {MOST_READS:,} times in a row, and nothing can change "
            "it: this run keeps shapes only (--shapes-only, numerics=False). Run it with values, "
            "or give the loop a number of rounds"
        )
