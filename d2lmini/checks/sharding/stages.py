"""Checker of the lowest stage of ZeRO that fits."""

from d2lmini.checks.shared.results import whole_number
from d2lmini.checks.shared.solution import checker

# Parameters, GPUs, bytes available for states on each.
SIZES = (
    (7_000_000_000, 8, 60_000_000_000),
    (7_000_000_000, 8, 40_000_000_000),
    (7_000_000_000, 8, 30_000_000_000),
    (7_000_000_000, 8, 14_000_000_000),
    (7_000_000_000, 8, 13_999_999_999),
    (1_000, 2, 16_000),
    (1_000, 2, 10_000),
    (1_000, 2, 9_999),
    (1_000, 2, 8_000),
    (1_000, 1, 15_999),
)


@checker("choose_stage(num_parameters, num_gpus, num_bytes)")
def check_choose_stage(choose_stage):
    """Check a function that chooses the lowest stage of ZeRO whose states fit.

    Parameters
    ----------
    choose_stage : callable
        ``choose_stage(num_parameters, num_gpus, num_bytes)``, returning 0 (DDP), 1, 2, 3, or None
        if not even stage 3 fits into `num_bytes` on each GPU.

    Raises
    ------
    AssertionError
        If another stage is returned; the message says why it is wrong.
    """
    for size, n, room in SIZES:
        where = f"{size} parameters, {n} GPUs, {room} bytes on each"
        needed = states(size, n)
        right = next((stage for stage, b in enumerate(needed) if b <= room), None)
        got = choose_stage.at(where)(size, n, room)
        if got is not None:
            got = whole_number(got, f"{where}: the stage that choose_stage returns")
        assert got is None or 0 <= got <= 3, f"{where}: there is no stage {got}"
        if got == right:
            continue
        if got is None:
            raise AssertionError(f"{where}: stage {right} fits, it needs {needed[right]:.0f} bytes")
        assert needed[got] <= room, f"{where}: stage {got} needs {needed[got]:.0f} bytes"
        raise AssertionError(f"{where}: stage {got} fits, but stage {right} does, too")
    print("choose_stage: passed")


def states(size, n):
    """Return the bytes of states on each of n GPUs, for DDP and the three stages of ZeRO."""
    return [size * per for per in (16, 4 + 12 / n, 2 + 14 / n, 16 / n)]
