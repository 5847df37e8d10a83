"""Checkers for the exercises of the chapter on memory and sharding.

One module each for the stages of ZeRO (the shortest, start there), for gradients, and for models.
"""

from d2lmini.checks.sharding.gradients import (
    check_global_norm,
    check_loss_scale,
    check_loss_weight,
)
from d2lmini.checks.sharding.models import check_count_gathers, check_prepare
from d2lmini.checks.sharding.stages import check_choose_stage

__all__ = [
    "check_choose_stage",
    "check_count_gathers",
    "check_global_norm",
    "check_loss_scale",
    "check_loss_weight",
    "check_prepare",
]
