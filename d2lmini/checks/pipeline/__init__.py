"""Checkers for the exercises of the chapter on pipeline parallelism.

Start reading in ``schedules.py``, which simulates the stages' schedules together. ``stages.py`` is
on the layers of a stage, and ``gradients.py`` on what the stages do with their gradients.
"""

from d2lmini.checks.pipeline.gradients import check_finish
from d2lmini.checks.pipeline.schedules import check_order_of, check_schedule
from d2lmini.checks.pipeline.stages import check_cut

__all__ = ["check_cut", "check_finish", "check_order_of", "check_schedule"]
