"""Checkers for the exercises of the chapter on pipeline parallelism.

Start reading in ``schedules.py``, which simulates the stages' schedules together. ``stages.py`` is
on the layers of a stage, ``gradients.py`` on gradients from micro-batches, and ``norms.py`` on
networks that compute the same in micro-batches.
"""

from d2lmini.checks.pipeline.gradients import check_accumulate, check_finish
from d2lmini.checks.pipeline.norms import check_for_pipeline
from d2lmini.checks.pipeline.schedules import check_order_of, check_schedule
from d2lmini.checks.pipeline.stages import check_best_virtual, check_cut

__all__ = [
    "check_accumulate",
    "check_best_virtual",
    "check_cut",
    "check_finish",
    "check_for_pipeline",
    "check_order_of",
    "check_schedule",
]
