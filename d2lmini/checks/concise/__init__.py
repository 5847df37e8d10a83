"""Checkers for the exercises of the chapter on `DistributedDataParallel`.

Each subject has its module: evaluation in ``counts.py``, accumulation in ``updates.py``, shares
without examples in ``shares.py``, files in ``checkpoints.py``, the rest of an epoch in
``resuming.py``, the shortest. If a solution is a program of several ranks, each rank has its own
simulated GPU (``ranks.py``).
"""

from d2lmini.checks.concise.checkpoints import check_save_all
from d2lmini.checks.concise.counts import (
    check_measure_accuracy,
    check_my_images,
    check_total_accuracy,
)
from d2lmini.checks.concise.resuming import check_rest
from d2lmini.checks.concise.shares import check_share_loss
from d2lmini.checks.concise.updates import check_update

__all__ = [
    "check_measure_accuracy",
    "check_my_images",
    "check_rest",
    "check_save_all",
    "check_share_loss",
    "check_total_accuracy",
    "check_update",
]
