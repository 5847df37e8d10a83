"""Checkers for the exercises of the from-scratch chapter.

Start reading in ``lenet.py``, on the parts of an update; ``update.py`` is on the whole update, and
``sums.py`` on its allreduce. ``predictions.py`` needs no device.
"""

from d2lmini.checks.scratch.lenet import check_evaluate, check_get_params, check_split_batch
from d2lmini.checks.scratch.predictions import check_break_even, check_predict_step
from d2lmini.checks.scratch.sums import check_allreduce, check_reduce_scatter
from d2lmini.checks.scratch.update import check_train_batch

__all__ = [
    "check_allreduce",
    "check_break_even",
    "check_evaluate",
    "check_get_params",
    "check_predict_step",
    "check_reduce_scatter",
    "check_split_batch",
    "check_train_batch",
]
