"""Engines: work goes into the first gap that is long enough, also if it fits exactly."""

import itertools

from simgpu.clock.engine import Engine, reserve

SLOTS = 7  # seconds, each of them busy or free; later all are free


def booked(busy):
    """Return an engine that is busy in some of the slots."""
    engine = Engine()
    for second in busy:
        engine.book(second, second + 1, 0)
    return engine


def first_gap(busy, ready, duration):
    return next(
        start for start in itertools.count(ready) if not busy & set(range(start, start + duration))
    )


def test_work_goes_into_the_first_gap_that_is_long_enough():
    sets = [{second for second in range(SLOTS) if bits >> second & 1} for bits in range(2**SLOTS)]
    for busy, ready, duration in itertools.product(sets, range(SLOTS), (1, 2, 3)):
        start = first_gap(busy, ready, duration)
        engine = booked(busy)
        assert engine.earliest(ready, duration) == start
        assert engine.take(ready, duration, 0) == start
        after = first_gap(busy | set(range(start, start + duration)), ready, duration)
        assert engine.earliest(ready, duration) == after


def test_two_engines_have_a_gap_in_common():
    sets = [{0, 2}, {1}, {3, 4}, set(), {5}]
    for one, other, duration in itertools.product(sets, sets, (1, 2, 3)):
        start = reserve([booked(one), booked(other)], 0, duration, 0)
        assert start == first_gap(one | other, 0, duration)
