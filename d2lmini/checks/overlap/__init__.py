"""Checkers for the exercises of the chapter on overlap and scaling.

Start reading in ``scaling.py``, on throughput and utilisation; ``buckets.py`` is on the cost of
messages, ``in_flight.py`` on how far the host runs ahead, and ``learning_rates.py`` on schedules.
"""

from d2lmini.checks.overlap.buckets import check_exposed_seconds, check_make_buckets
from d2lmini.checks.overlap.in_flight import check_run_steps
from d2lmini.checks.overlap.learning_rates import check_advance
from d2lmini.checks.overlap.scaling import check_mfu, check_smallest_share

__all__ = [
    "check_advance",
    "check_exposed_seconds",
    "check_make_buckets",
    "check_mfu",
    "check_run_steps",
    "check_smallest_share",
]
