"""Checkers for the exercises of the chapter on collectives.

Start reading in ``rings.py``; like ``averages.py`` and ``losses.py`` it runs programs of several
ranks on simulated GPUs. ``buckets.py`` is arithmetic.
"""

from d2lmini.checks.collectives.averages import check_average
from d2lmini.checks.collectives.buckets import check_bucket_size
from d2lmini.checks.collectives.losses import check_validation_loss
from d2lmini.checks.collectives.rings import check_reduce_scatter, check_ring_order

__all__ = [
    "check_average",
    "check_bucket_size",
    "check_reduce_scatter",
    "check_ring_order",
    "check_validation_loss",
]
