"""A block in which a solution may not race, also inside the reader's own `sim.check_races`."""

from contextlib import contextmanager

from simgpu.races import detector


@contextmanager
def no_races():
    """Raise a `RaceError` for each race of streams in the block.

    Unlike `sim.check_races` it may stand inside another such block, whose detector rests
    meanwhile, and does not mind if no device works.
    """
    outer, detector.active = detector.active, detector.Detector("raise")
    try:
        yield
    finally:
        detector.active = outer
